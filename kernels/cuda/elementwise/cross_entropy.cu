// Softmax and cross-entropy of rows of logits, one row per block.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/ops/elementwise/cross_entropy.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;

template <class T>
struct Rows {
  T* logits;          // (outer, rows, inner)
  const float* bias;  // or null
  std::int64_t rows, inner, padded, classes;
  const std::int32_t *targets, *count;
  std::int64_t row_begin;
  bool gradient;
  double* losses;  // (rows): per row, 0 for absent ones
  float* correct;  // (rows): 1 or 0
};

struct Largest {
  float value;
  std::int64_t at;
};

// The larger one; the first of equals.
__device__ __forceinline__ Largest larger(const Largest& a, const Largest& b) {
  return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

template <class T>
__global__ void __launch_bounds__(threads) cross_entropy_rows(Rows<T> op) {
  constexpr int warps = threads / warp;
  auto* sums = shared_array<float>(4 * warps);  // two each, and one element of twice the size
  auto* places = reinterpret_cast<std::int64_t*>(sums + 2 * warps);
  const std::int64_t row = blockIdx.x;
  const auto logit = [&](std::int64_t c) -> T& {
    return op.logits[(c / op.inner * op.rows + row) * op.inner + c % op.inner];
  };
  const auto z = [&](std::int64_t c) {
    return static_cast<float>(logit(c)) + (op.bias != nullptr ? op.bias[c] : 0.F);
  };
  if (op.row_begin + row >= *op.count) {
    if (op.gradient)
      for (std::int64_t c = threadIdx.x; c < op.padded; c += threads) logit(c) = T(0.F);
    if (threadIdx.x == 0) {
      op.losses[row] = 0;
      op.correct[row] = 0;
    }
    return;
  }
  const std::int64_t target = op.targets[op.row_begin + row];
  Largest best{-INFINITY, op.classes};
  for (std::int64_t c = threadIdx.x; c < op.classes; c += threads) best = larger(best, {z(c), c});
  for (int bits = warp / 2; bits > 0; bits /= 2)
    best = larger(best,
                  {__shfl_xor_sync(all_lanes, best.value, bits), __shfl_xor_sync(all_lanes, best.at, bits)});
  if (lane_of_thread() == 0) {
    sums[warp_of_thread()] = best.value;
    places[warp_of_thread()] = best.at;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) best = larger(best, {sums[w], places[w]});
  const float target_logit = z(target);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < op.classes; c += threads) sum += expf(z(c) - best.value);
  sum = block_sum(sum, sums + warps);
  if (threadIdx.x == 0) {
    op.losses[row] = best.value + logf(sum) - target_logit;
    op.correct[row] = best.at == target ? 1.F : 0.F;
  }
  if (!op.gradient) return;
  // block_sum() ended with a barrier: all threads are done reading the logits of others.
  for (std::int64_t c = threadIdx.x; c < op.padded; c += threads)
    logit(c) = T(c < op.classes ? expf(z(c) - best.value) / sum - (c == target ? 1.F : 0.F) : 0.F);
}

// One block: the totals over the rows.
__global__ void __launch_bounds__(threads)
    add_results(const double* losses, const float* correct, std::int64_t rows, std::int64_t row_begin,
                const std::int32_t* count, StepResults* results) {
  auto* scratch = shared_array<double>(threads / warp);
  double loss = 0, right = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += threads) {
    loss += losses[r];
    right += correct[r];
  }
  loss = block_sum(loss, scratch);
  right = block_sum(right, scratch);
  if (threadIdx.x > 0) return;
  const std::int64_t real = min(max(*count - row_begin, std::int64_t{0}), rows);
  results->loss_sum += loss;
  results->correct += right;
  results->target_count += static_cast<double>(real);
}

// dbias[c] += Σ over rows of the gradient, in their order.
template <class T>
__global__ void __launch_bounds__(threads)
    add_bias_gradient(const T* logits, std::int64_t rows, std::int64_t inner, std::int64_t classes,
                      float* dbias) {
  const std::int64_t c = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (c >= classes) return;
  float sum = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    sum += static_cast<float>(logits[(c / inner * rows + r) * inner + c % inner]);
  dbias[c] += sum;
}

std::size_t softmax_cross_entropy_scratch(const SoftmaxCrossEntropy& op) {
  return static_cast<std::size_t>(op.logits.dim(1)) * (sizeof(double) + sizeof(float));
}

template <class T>
void softmax_cross_entropy(const SoftmaxCrossEntropy& op, const KernelContext& context) {
  Rows<T> rows{};
  rows.logits = op.logits.data<T>();
  rows.bias = op.bias ? op.bias.data<float>() : nullptr;
  rows.rows = op.logits.dim(1), rows.inner = op.logits.dim(2), rows.padded = op.logits.dim(0) * rows.inner;
  rows.classes = op.classes;
  rows.targets = op.targets.data<std::int32_t>(), rows.count = op.count.data<std::int32_t>();
  rows.row_begin = op.row_begin;
  rows.gradient = op.gradient;
  rows.losses = reinterpret_cast<double*>(context.scratch);
  rows.correct = reinterpret_cast<float*>(rows.losses + rows.rows);
  if (rows.rows == 0) return;
  constexpr std::size_t warps = threads / warp;
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {rows.rows},
                             .threads = threads,
                             .shared_bytes = warps * (2 * sizeof(float) + sizeof(std::int64_t))}),
                (cross_entropy_rows<T>), rows);
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = warps * sizeof(double)}),
                add_results, rows.losses, rows.correct, rows.rows, op.row_begin, rows.count,
                static_cast<StepResults*>(op.results.raw()));
  if (op.gradient && op.bias)
    COMERA_LAUNCH(
        context.stream, (LaunchShape{.grid = {blocks_for(op.classes, threads)}, .threads = threads}),
        (add_bias_gradient<T>), rows.logits, rows.rows, rows.inner, op.classes, op.dbias.data<float>());
}

}  // namespace

void register_cross_entropy(Backend& backend, bool /*tf32*/) {
  backend.set<SoftmaxCrossEntropy>(DType::float32, softmax_cross_entropy<float>,
                                   softmax_cross_entropy_scratch);
  backend.set<SoftmaxCrossEntropy>(DType::bfloat16, softmax_cross_entropy<bfloat16>,
                                   softmax_cross_entropy_scratch);
}

}  // namespace comera::COMERA_CUDA
