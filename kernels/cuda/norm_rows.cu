// Each warp of a block has a row.

#include "kernels/cuda/norm_rows.h"

#include <algorithm>

#include "kernels/cuda/reduce.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int rows_at_once = 4;  // warps of a block

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
  // Partial sums of a launch: two blocks for each multiprocessor of an H100.
  constexpr std::int64_t most = 256;
  return std::min(blocks_for(rows, 4 * rows_at_once), most);
}

}  // namespace

template <class T>
void run_norm_forward(const NormForward<T>& op, const Stream& stream) {
  const LaunchShape shape{.grid = {blocks_for(op.rows, rows_at_once)}, .threads = warp * rows_at_once};
  if (op.rows == 0) return;
  if (vector_of(op.width) == 4)
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 4>), op);
  else
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 1>), op);
}

std::size_t norm_scratch(std::int64_t rows, std::int64_t width, int sums) {
  return static_cast<std::size_t>(backward_blocks(rows) * width * sums) * sizeof(float);
}

template <class T>
void run_norm_backward(NormBackward<T> op, std::initializer_list<float*> sums, const KernelContext& context) {
  if (op.rows == 0) return;
  op.partial = reinterpret_cast<float*>(context.scratch), op.sums = static_cast<int>(sums.size());
  const LaunchShape shape{
      .grid = {backward_blocks(op.rows)},
      .threads = warp * rows_at_once,
      .shared_bytes = static_cast<std::size_t>(rows_at_once * op.sums * op.width) * sizeof(float)};
  if (vector_of(op.width) == 4)
    COMERA_LAUNCH(context.stream, shape, (norm_backward<T, 4>), op);
  else
    COMERA_LAUNCH(context.stream, shape, (norm_backward<T, 1>), op);
  SumOutputs outputs;
  std::ranges::copy(sums, outputs.at);
  add_partial_sums(context.stream, op.partial, backward_blocks(op.rows), op.width, op.sums, outputs);
}

#define COMERA_FOR_TYPE(T)                                              \
  template void run_norm_forward(const NormForward<T>&, const Stream&); \
  template void run_norm_backward(NormBackward<T>, std::initializer_list<float*>, const KernelContext&);
COMERA_FOR_TYPE(float)
COMERA_FOR_TYPE(bfloat16)
#undef COMERA_FOR_TYPE

}  // namespace comera::COMERA_CUDA
