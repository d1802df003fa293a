// Layer norm, and the end of a block: bias, dropout, residual and norm in one pass. A warp has a row.

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/bias_dropout_residual_norm.h"
#include "kernels/ops/layer_norm.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int rows_at_once = 4;  // warps of a block

template <class T>
struct NormForward {
  std::int64_t rows, width;
  const T *x, *residual;  // residual and bias: at a block's end only
  const float* bias;
  DropoutMask dropout;
  T* sum;                     // where x goes on from; x itself for a plain norm
  const float *gamma, *beta;  // null: no norm
  float eps;
  T* y;
  float *mean, *rstd;
};

// Numbers of a row are read again from the caches instead of being kept in registers, so that any width will
// do; the row is written before it is read, by the same thread.
template <class T, int V>
__global__ void __launch_bounds__(warp* rows_at_once) norm_forward(NormForward<T> op) {
  const std::int64_t row = std::int64_t{blockIdx.x} * rows_at_once + warp_of_thread();
  if (row >= op.rows) return;
  const std::int64_t begin = row * op.width, first = std::int64_t{lane_of_thread()} * V;
  constexpr std::int64_t step = std::int64_t{warp} * V;
  const T* x = op.x + begin;
  float total = 0;
  if (op.residual != nullptr) {
    for (std::int64_t j = first; j < op.width; j += step) {
      const Values<V> value = load<V>(x + j), bias = load<V>(op.bias + j);
      const Values<V> residual = load<V>(op.residual + begin + j);
      const Values<V> factor = dropout_factors<V>(op.dropout, begin + j);
      Values<V> sum;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        sum.at[i] = residual.at[i] + (value.at[i] + bias.at[i]) * factor.at[i];
        total += sum.at[i];
      }
      store(op.sum + begin + j, sum);
    }
    x = op.sum + begin;
  } else {
    for (std::int64_t j = first; j < op.width; j += step) {
      const Values<V> value = load<V>(x + j);
#pragma unroll
      for (int i = 0; i < V; ++i) total += value.at[i];
    }
  }
  if (op.gamma == nullptr) return;
  const float mean = warp_sum(total) / static_cast<float>(op.width);
  float squares = 0;
  for (std::int64_t j = first; j < op.width; j += step) {
    const Values<V> value = load<V>(x + j);
#pragma unroll
    for (int i = 0; i < V; ++i) squares += (value.at[i] - mean) * (value.at[i] - mean);
  }
  const float rstd = rsqrtf(warp_sum(squares) / static_cast<float>(op.width) + op.eps);
  for (std::int64_t j = first; j < op.width; j += step) {
    const Values<V> value = load<V>(x + j), gamma = load<V>(op.gamma + j), beta = load<V>(op.beta + j);
    Values<V> y;
#pragma unroll
    for (int i = 0; i < V; ++i) y.at[i] = gamma.at[i] * ((value.at[i] - mean) * rstd) + beta.at[i];
    store(op.y + begin + j, y);
  }
  if (lane_of_thread() == 0) {
    op.mean[row] = mean;
    op.rstd[row] = rstd;
  }
}

template <class T>
void run_forward(const NormForward<T>& op, const Stream& stream) {
  const LaunchShape shape{.grid = {blocks_for(op.rows, rows_at_once)}, .threads = warp * rows_at_once};
  if (op.rows == 0) return;
  if (vector_of(op.width) == 4)
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 4>), op);
  else
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 1>), op);
}

template <class T>
struct NormBackward {
  std::int64_t rows, width;
  const T *dy, *x;
  const float *gamma, *mean, *rstd;  // null, as x: no norm, dsum = dy
  T* dsum;
  bool accumulate;
  T* dx;  // behind the dropout; null for a plain norm
  DropoutMask dropout;
  float* partial;  // (blocks, sums, width)
  int sums;        // of dgamma, dbeta, dbias, those there are
};

// Sums over rows of what a lane's columns give are kept in shared memory, a part for each warp, so that no
// two threads touch one. There are about two blocks for each multiprocessor: unless told so, the compiler
// saves registers for more of them, and spills.
template <class T, int V>
__global__ void __launch_bounds__(warp* rows_at_once, 2) norm_backward(NormBackward<T> op) {
  const bool norm = op.gamma != nullptr;
  auto* shared = shared_array<float>(rows_at_once * op.sums * op.width);
  float* own = shared + warp_of_thread() * op.sums * op.width;
  float *dgamma = own, *dbeta = own + op.width, *dbias = own + (norm ? 2 * op.width : 0);
  const std::int64_t first = std::int64_t{lane_of_thread()} * V;
  constexpr std::int64_t step = std::int64_t{warp} * V;
  for (int s = 0; s < op.sums; ++s)
    for (std::int64_t j = first; j < op.width; j += step)
#pragma unroll
      for (int i = 0; i < V; ++i) own[s * op.width + j + i] = 0;

  for (std::int64_t row = std::int64_t{blockIdx.x} * rows_at_once + warp_of_thread(); row < op.rows;
       row += std::int64_t{gridDim.x} * rows_at_once) {
    const std::int64_t begin = row * op.width;
    const T *dy = op.dy + begin, *x = op.x + begin;
    float mean = 0, rstd = 0, mean_g = 0, mean_gx = 0;
    if (norm) {
      mean = op.mean[row];
      rstd = op.rstd[row];
      for (std::int64_t j = first; j < op.width; j += step) {
        const Values<V> value = load<V>(x + j), gradient = load<V>(dy + j), gamma = load<V>(op.gamma + j);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float normal = (value.at[i] - mean) * rstd, g = gamma.at[i] * gradient.at[i];
          mean_g += g;
          mean_gx += g * normal;
          dgamma[j + i] += gradient.at[i] * normal;
          dbeta[j + i] += gradient.at[i];
        }
      }
      mean_g = warp_sum(mean_g) / static_cast<float>(op.width);
      mean_gx = warp_sum(mean_gx) / static_cast<float>(op.width);
    }
    for (std::int64_t j = first; j < op.width; j += step) {
      Values<V> dsum = load<V>(dy + j);
      if (norm) {
        const Values<V> value = load<V>(x + j), gamma = load<V>(op.gamma + j);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float normal = (value.at[i] - mean) * rstd;
          dsum.at[i] = rstd * (gamma.at[i] * dsum.at[i] - mean_g - normal * mean_gx);
        }
      }
      if (op.accumulate) {
        const Values<V> before = load<V>(op.dsum + begin + j);
#pragma unroll
        for (int i = 0; i < V; ++i) dsum.at[i] += before.at[i];
      }
      store(op.dsum + begin + j, dsum);
      if (op.dx == nullptr) continue;
      const Values<V> factor = dropout_factors<V>(op.dropout, begin + j);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        dsum.at[i] *= factor.at[i];
        dbias[j + i] += dsum.at[i];
      }
      store(op.dx + begin + j, dsum);
    }
  }
  __syncthreads();
  float* partial = op.partial + std::int64_t{blockIdx.x} * op.sums * op.width;
  for (std::int64_t j = threadIdx.x; j < op.sums * op.width; j += blockDim.x) {
    float sum = 0;
    for (int w = 0; w < rows_at_once; ++w) sum += shared[w * op.sums * op.width + j];
    partial[j] = sum;
  }
}

std::int64_t backward_blocks(std::int64_t rows) {
  constexpr std::int64_t most =
      256;  // partial sums of a launch: two blocks for each multiprocessor of an H100
  return std::min(blocks_for(rows, 4 * rows_at_once), most);
}

std::size_t partial_bytes(std::int64_t rows, std::int64_t width, int sums) {
  return static_cast<std::size_t>(backward_blocks(rows) * width * sums) * sizeof(float);
}

// Leaves the partial sums in op.partial.
template <class T>
void run_backward(const NormBackward<T>& op, const Stream& stream) {
  const LaunchShape shape{
      .grid = {backward_blocks(op.rows)},
      .threads = warp * rows_at_once,
      .shared_bytes = static_cast<std::size_t>(rows_at_once * op.sums * op.width) * sizeof(float)};
  if (vector_of(op.width) == 4)
    COMERA_LAUNCH(stream, shape, (norm_backward<T, 4>), op);
  else
    COMERA_LAUNCH(stream, shape, (norm_backward<T, 1>), op);
}

template <class T>
void layer_norm_forward(const LayerNormForward& op, const KernelContext& context) {
  NormForward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  args.x = op.x.data<T>();
  args.gamma = op.gamma.data<float>(), args.beta = op.beta.data<float>();
  args.eps = static_cast<float>(op.eps);
  args.y = op.y.data<T>(), args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  run_forward(args, context.stream);
}

std::size_t layer_norm_backward_scratch(const LayerNormBackward& op) {
  return partial_bytes(op.x.dim(0), op.x.dim(1), 2);
}

template <class T>
void layer_norm_backward(const LayerNormBackward& op, const KernelContext& context) {
  NormBackward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  if (args.rows == 0) return;
  args.dy = op.dy.data<T>();
  args.x = op.x.data<T>(), args.gamma = op.gamma.data<float>();
  args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  args.dsum = op.dx.data<T>(), args.accumulate = op.accumulate_dx;
  args.partial = reinterpret_cast<float*>(context.scratch), args.sums = 2;
  run_backward(args, context.stream);
  add_partial_sums(context.stream, args.partial, backward_blocks(args.rows), args.width, args.sums,
                   {{op.dgamma.data<float>(), op.dbeta.data<float>()}});
}

template <class T>
void bias_dropout_residual_norm_forward(const BiasDropoutResidualNormForward& op,
                                        const KernelContext& context) {
  NormForward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  args.x = op.x.data<T>(), args.bias = op.bias.data<float>(), args.residual = op.residual.data<T>();
  args.dropout = mask_of(op.dropout, op.step_inputs);
  args.sum = op.sum.data<T>();
  if (op.gamma) {
    args.gamma = op.gamma.data<float>(), args.beta = op.beta.data<float>();
    args.eps = static_cast<float>(op.eps);
    args.y = op.normed.data<T>(), args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  }
  run_forward(args, context.stream);
}

std::size_t bias_dropout_residual_norm_backward_scratch(const BiasDropoutResidualNormBackward& op) {
  return partial_bytes(op.dy.dim(0), op.dy.dim(1), op.gamma ? 3 : 1);
}

template <class T>
void bias_dropout_residual_norm_backward(const BiasDropoutResidualNormBackward& op,
                                         const KernelContext& context) {
  NormBackward<T> args{};
  args.rows = op.dy.dim(0), args.width = op.dy.dim(1);
  if (args.rows == 0) return;
  args.dy = op.dy.data<T>();
  args.dsum = op.dresidual.data<T>(), args.dx = op.dx.data<T>();
  args.dropout = mask_of(op.dropout, op.step_inputs);
  args.partial = reinterpret_cast<float*>(context.scratch), args.sums = op.gamma ? 3 : 1;
  if (op.gamma) {
    args.x = op.sum.data<T>(), args.gamma = op.gamma.data<float>();
    args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  }
  run_backward(args, context.stream);
  const SumOutputs outputs =
      op.gamma ? SumOutputs{{op.dgamma.data<float>(), op.dbeta.data<float>(), op.dbias.data<float>()}}
               : SumOutputs{{op.dbias.data<float>()}};
  add_partial_sums(context.stream, args.partial, backward_blocks(args.rows), args.width, args.sums, outputs);
}

}  // namespace

namespace {

template <class T>
void register_of(Backend& backend) {
  backend.set<LayerNormForward>(dtype_of<T>, layer_norm_forward<T>);
  backend.set<LayerNormBackward>(dtype_of<T>, layer_norm_backward<T>, layer_norm_backward_scratch);
  backend.set<BiasDropoutResidualNormForward>(dtype_of<T>, bias_dropout_residual_norm_forward<T>);
  backend.set<BiasDropoutResidualNormBackward>(dtype_of<T>, bias_dropout_residual_norm_backward<T>,
                                               bias_dropout_residual_norm_backward_scratch);
}

}  // namespace

void register_norms(Backend& backend) {
  register_of<float>(backend);
  register_of<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
