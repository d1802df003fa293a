// Softmax and cross-entropy of rows of logits, one row per block: a pass that finds the largest logit and the
// sum of exponentials at once, and with gradient one that writes.
//
// Bytes bound it: a logit is read three times, once for the bias's gradient, and written once, 8 bytes in
// bfloat16, for two exponentials.

#include <algorithm>
#include <cfloat>

#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/products/part_sums.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/elementwise/cross_entropy.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int warps = threads / warp;

template <class T>
struct Rows {
  T* logits;          // (outer, rows, inner)
  const float* bias;  // or null
  std::int64_t outer, rows, inner, classes;
  const std::int32_t *targets, *count;
  const float* weights;  // or null
  std::int64_t row_begin;
  bool gradient, counts;
  double* losses;  // (rows): per row, 0 for absent ones
  float* correct;  // (rows): 1 or 0
};

// The largest of some values, the first of equals, and Σ exp(z - value) over them.
struct Softmax {
  float value = -FLT_MAX;  // finite, so that a logit of -infinity adds 0
  float sum = 0;
  std::int64_t at = 0;
};

// exp(x)
__device__ __forceinline__ float exponential(float x) { return fast_exp2(1.44269504F * x); }

__device__ __forceinline__ Softmax joined(const Softmax& a, const Softmax& b) {
  const bool second = b.value > a.value || (b.value == a.value && b.at < a.at);
  const float value = second ? b.value : a.value;
  return {value, a.sum * exponential(a.value - value) + b.sum * exponential(b.value - value),
          second ? b.at : a.at};
}

// Of all threads, in each of them. `found` is shared memory for one of each warp.
__device__ __forceinline__ Softmax joined_over_block(Softmax all, Softmax* found) {
  for (int bits = warp / 2; bits > 0; bits /= 2)
    all = joined(all, {__shfl_xor_sync(all_lanes, all.value, bits), __shfl_xor_sync(all_lanes, all.sum, bits),
                       __shfl_xor_sync(all_lanes, all.at, bits)});
  if (lane_of_thread() == 0) found[warp_of_thread()] = all;
  __syncthreads();
  all = found[0];
  for (int w = 1; w < warps; ++w) all = joined(all, found[w]);
  return all;
}

// Joins V values, of which `some` are there, without saying where the largest is.
template <int V>
__device__ __forceinline__ void join_values(Softmax& all, const Values<V>& z, int some) {
  float largest = all.value;
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < some) largest = z.at[v] > largest ? z.at[v] : largest;
  if (largest > all.value) {
    all.sum *= exponential(all.value - largest);
    all.value = largest;
  }
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < some) all.sum += exponential(z.at[v] - all.value);
}

// Logits c, …, c + V - 1 of a row, with their bias; `some` of them are classes.
template <int V, class T>
__device__ __forceinline__ Values<V> biased(const T* logits, const float* bias, int some) {
  Values<V> z = load<V>(logits);
  if (bias == nullptr) return z;
  if (some >= V) {
    const Values<V> b = load<V>(bias);
#pragma unroll
    for (int v = 0; v < V; ++v) z.at[v] += b.at[v];
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < some) z.at[v] += bias[v];
  }
  return z;
}

// f(place of V neighbouring logits of the row, their first class, how many of them are classes)
template <int V, class T, class F>
__device__ __forceinline__ void each_logit(const Rows<T>& op, std::int64_t row, F f) {
  // Every thread has units of V logits, whatever the size of a part; only the first division is one of many.
  const std::int64_t first = std::int64_t{threadIdx.x} * V, step = threads * V;
  std::int64_t o = first / op.inner, i = first % op.inner;
  const std::int64_t parts = step / op.inner, rest = step % op.inner;
  while (o < op.outer) {
    const std::int64_t c = o * op.inner + i;
    f(op.logits + (o * op.rows + row) * op.inner + i, c,
      static_cast<int>(min(op.classes - c, std::int64_t{V})));
    o += parts, i += rest;
    if (i >= op.inner) i -= op.inner, ++o;
  }
}

// V: neighbouring logits moved at once.
template <int V, class T>
__global__ void __launch_bounds__(threads) cross_entropy_rows(Rows<T> op) {
  auto* found = shared_array<Softmax>(warps);
  const std::int64_t row = blockIdx.x;
  if (op.row_begin + row >= *op.count) {
    if (op.gradient) each_logit<V>(op, row, [](T* at, std::int64_t, int) { store(at, Values<V>{}); });
    if (threadIdx.x == 0) {
      op.losses[row] = 0;
      op.correct[row] = 0;
    }
    return;
  }
  const std::int64_t target = op.targets[op.row_begin + row];
  const float weight = op.weights == nullptr ? 1.F : op.weights[op.row_begin + row];
  const auto bias_of = [&](std::int64_t c) { return op.bias == nullptr ? nullptr : op.bias + c; };

  Softmax all{.at = op.classes};
  each_logit<V>(op, row, [&](const T* at, std::int64_t c, int some) {
    const Values<V> z = biased<V>(at, bias_of(c), some);
    float largest = all.value;
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < some && z.at[v] > largest) largest = z.at[v];
    if (largest > all.value) {
      all.sum *= exponential(all.value - largest);
      all.value = largest;
#pragma unroll
      for (int v = V - 1; v >= 0; --v)
        if (z.at[v] == largest && v < some) all.at = c + v;
    }
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < some) all.sum += exponential(z.at[v] - all.value);
  });
  all = joined_over_block(all, found);
  if (threadIdx.x == 0) {
    const T* of_target = op.logits + (target / op.inner * op.rows + row) * op.inner + target % op.inner;
    op.losses[row] = weight * (all.value + logf(all.sum) - biased<1>(of_target, bias_of(target), 1).at[0]);
    op.correct[row] = all.at == target ? 1.F : 0.F;
  }
  if (!op.gradient) return;
  __syncthreads();  // the target's logit has been read
  const float scale = weight / all.sum;
  each_logit<V>(op, row, [&](T* at, std::int64_t c, int some) {
    Values<V> z = biased<V>(at, bias_of(c), some);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      z.at[v] = v < some ? exponential(z.at[v] - all.value) * scale : 0;
      if (c + v == target) z.at[v] -= weight;
    }
    store(at, z);
  });
}

// What a teacher adds to rows of logits.
struct Taught {
  const float* teacher;   // (all rows, classes)
  float inverse, weight;  // 1 / temperature; factor temperature
  double factor;          // of the loss
};

// The teacher's logits are read one by one: their rows begin anywhere.
template <int V>
__device__ __forceinline__ Values<V> taught_values(const float* teacher, float inverse, int some) {
  Values<V> values{};
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v < some) values.at[v] = teacher[v] * inverse;
  return values;
}

template <int V, class T>
__global__ void __launch_bounds__(threads) divergence_rows(Rows<T> op, Taught taught) {
  auto* found = shared_array<Softmax>(2 * warps);
  const std::int64_t row = blockIdx.x;
  if (op.row_begin + row >= *op.count) {
    if (op.gradient) each_logit<V>(op, row, [](T* at, std::int64_t, int) { store(at, Values<V>{}); });
    if (threadIdx.x == 0) op.losses[row] = 0;
    return;
  }
  const float* teacher = taught.teacher + (op.row_begin + row) * op.classes;
  const auto own_values = [&](const T* at, std::int64_t c, int some) {
    Values<V> z = biased<V>(at, op.bias == nullptr ? nullptr : op.bias + c, some);
#pragma unroll
    for (int v = 0; v < V; ++v) z.at[v] *= taught.inverse;
    return z;
  };
  Softmax own, theirs;
  each_logit<V>(op, row, [&](const T* at, std::int64_t c, int some) {
    join_values(own, own_values(at, c, some), some);
    join_values(theirs, taught_values<V>(teacher + c, taught.inverse, some), some);
  });
  own = joined_over_block(own, found);
  theirs = joined_over_block(theirs, found + warps);
  const float own_scale = 1 / own.sum, their_scale = 1 / theirs.sum;
  float between = 0;  // Σ p (τ - z)
  each_logit<V>(op, row, [&](T* at, std::int64_t c, int some) {
    Values<V> z = own_values(at, c, some);
    const Values<V> other = taught_values<V>(teacher + c, taught.inverse, some);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float p = v < some ? exponential(other.at[v] - theirs.value) * their_scale : 0;
      if (v < some) between += p * (other.at[v] - z.at[v]);
      z.at[v] = v < some ? taught.weight * (exponential(z.at[v] - own.value) * own_scale - p) : 0;
    }
    if (op.gradient) store(at, z);
  });
  between = block_sum(between, reinterpret_cast<float*>(found));
  if (threadIdx.x == 0)
    op.losses[row] = taught.factor * (static_cast<double>(between) + own.value + logf(own.sum) -
                                      theirs.value - logf(theirs.sum));
}

// The largest logit of a row; exponentials of a thread's own run of neighbouring classes, and their sums of
// all threads in order; then the thread in whose run the drawn part of the sum lies finds the class. Without
// biased groups, since runs begin anywhere: a logit is read three times.
template <class T>
__global__ void __launch_bounds__(threads)
    draw_rows(Rows<T> op, const StepInputs* inputs, std::uint32_t site, std::int32_t* drawn) {
  auto* sums = shared_array<double>(threads + 1);
  const std::int64_t row = blockIdx.x, all_row = op.row_begin + row;
  if (all_row >= *op.count) return;
  const auto inner = static_cast<std::uint32_t>(op.inner), classes = static_cast<std::uint32_t>(op.classes);
  const auto z = [&](std::uint32_t c) {
    const auto logit = static_cast<float>(op.logits[(c / inner * op.rows + row) * op.inner + c % inner]);
    return op.bias == nullptr ? logit : logit + op.bias[c];
  };
  float largest = -FLT_MAX;
  for (std::uint32_t c = threadIdx.x; c < classes; c += threads) {
    const float value = z(c);
    largest = value > largest ? value : largest;
  }
  for (int bits = warp / 2; bits > 0; bits /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, bits));
  if (lane_of_thread() == 0) sums[warp_of_thread()] = largest;
  __syncthreads();
  for (int w = 0; w < warps; ++w) largest = fmaxf(largest, static_cast<float>(sums[w]));
  __syncthreads();
  const std::uint32_t each = (classes + threads - 1) / threads;
  const std::uint32_t first = min(threadIdx.x * each, classes), last = min(first + each, classes);
  double own = 0;
  for (std::uint32_t c = first; c < last; ++c) own += static_cast<double>(exponential(z(c) - largest));
  sums[threadIdx.x + 1] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[0] = 0;
    for (int t = 0; t < threads; ++t) sums[t + 1] += sums[t];
    drawn[all_row] = static_cast<std::int32_t>(classes - 1);  // if rounding leaves no other
  }
  __syncthreads();
  const double part = uniform_of_row(inputs->dropout, site, all_row) * sums[threads];
  if (!(sums[threadIdx.x] <= part && part < sums[threadIdx.x + 1])) return;
  double sum = sums[threadIdx.x];
  std::uint32_t c = first;
  for (; c + 1 < last; ++c) {
    sum += static_cast<double>(exponential(z(c) - largest));
    if (sum > part) break;
  }
  drawn[all_row] = static_cast<std::int32_t>(c);
}

// One block: the totals over the rows. correct: null without hits. counts: whether rows are targets.
__global__ void __launch_bounds__(threads)
    add_results(const double* losses, const float* correct, std::int64_t rows, std::int64_t row_begin,
                const std::int32_t* count, const float* weights, bool counts, StepResults* results) {
  auto* scratch = shared_array<double>(warps);
  const std::int64_t real = min(max(*count - row_begin, std::int64_t{0}), rows);
  double loss = 0, right = 0, weight = 0;
  for (std::int64_t r = threadIdx.x; r < rows; r += threads) {
    loss += losses[r];
    if (correct != nullptr) right += correct[r];
    if (weights != nullptr && r < real) weight += weights[row_begin + r];
  }
  loss = block_sum(loss, scratch);
  if (correct != nullptr) right = block_sum(right, scratch);
  if (weights != nullptr) weight = block_sum(weight, scratch);
  if (threadIdx.x > 0) return;
  results->loss_sum += loss;
  results->correct += right;
  if (counts) results->target_count += weights == nullptr ? static_cast<double>(real) : weight;
}

// The sums over a part of the rows: a block takes 32 V columns, its warps alternate over the rows. Adds them
// to dbias if there is one part, else writes them to parts (parts, outer inner).
template <int V, class T>
__global__ void __launch_bounds__(threads)
    bias_gradient_kernel(const T* logits, std::int64_t outer, std::int64_t rows, std::int64_t inner,
                         std::int64_t rows_each, std::int64_t classes, float* parts, float* dbias) {
  auto* sums = shared_array<float>(std::size_t{threads} * V);
  const std::int64_t columns = outer * inner;
  const std::int64_t c = (std::int64_t{blockIdx.x} * warp + lane_of_thread()) * V;
  Values<V> sum{};
  if (c < columns) {
    const T* column = logits + c / inner * rows * inner + c % inner;
    const std::int64_t begin = blockIdx.y * rows_each, end = min(begin + rows_each, rows);
#pragma unroll 4
    for (std::int64_t r = begin + warp_of_thread(); r < end; r += warps) {
      const Values<V> values = load<V>(column + r * inner);
#pragma unroll
      for (int v = 0; v < V; ++v) sum.at[v] += values.at[v];
    }
  }
  store(sums + threadIdx.x * V, sum);
  __syncthreads();
  if (warp_of_thread() > 0 || c >= columns) return;
  for (int w = 1; w < warps; ++w) {
    const Values<V> other = load<V>(sums + (w * warp + lane_of_thread()) * V);
#pragma unroll
    for (int v = 0; v < V; ++v) sum.at[v] += other.at[v];
  }
  if (gridDim.y > 1) return store(parts + blockIdx.y * columns + c, sum);
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (c + v < classes) dbias[c + v] += sum.at[v];
}

// Parts of the rows whose sums another launch adds.
std::int64_t row_parts(std::int64_t rows) {
  constexpr std::int64_t rows_each = 128, most = 16;
  return std::clamp<std::int64_t>(rows / rows_each, 1, most);
}

// The scratch: float (parts, columns) of the bias's gradient, double (rows) and float (rows).
struct Scratch {
  std::size_t losses, correct, bytes;  // where these begin, and the whole
};
template <class Operation>
Scratch scratch_of(const Operation& op) {
  const std::int64_t rows = op.logits.dim(1), parts = op.gradient && op.bias ? row_parts(rows) : 1;
  const std::int64_t columns = op.logits.dim(0) * op.logits.dim(2);
  const auto part_bytes = static_cast<std::size_t>(parts > 1 ? parts * columns : 0) * sizeof(float);
  const std::size_t losses = (part_bytes + sizeof(double) - 1) / sizeof(double) * sizeof(double);
  const std::size_t correct = losses + static_cast<std::size_t>(rows) * sizeof(double);
  return {losses, correct, correct + static_cast<std::size_t>(rows) * sizeof(float)};
}

std::size_t softmax_cross_entropy_scratch(const SoftmaxCrossEntropy& op) { return scratch_of(op).bytes; }

std::size_t softmax_divergence_scratch(const SoftmaxDivergence& op) { return scratch_of(op).bytes; }

template <int V, class T>
void launch_rows(const SoftmaxCrossEntropy& /*op*/, const Rows<T>& rows, const KernelContext& context) {
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = {rows.rows}, .threads = threads, .shared_bytes = warps * sizeof(Softmax)}),
      (cross_entropy_rows<V, T>), rows);
}

template <int V, class T>
void launch_rows(const SoftmaxDivergence& op, const Rows<T>& rows, const KernelContext& context) {
  const Taught taught{.teacher = op.teacher.data<float>(),
                      .inverse = static_cast<float>(1 / op.temperature),
                      .weight = static_cast<float>(op.factor * op.temperature),
                      .factor = op.factor * op.temperature * op.temperature};
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = {rows.rows}, .threads = threads, .shared_bytes = 2 * warps * sizeof(Softmax)}),
      (divergence_rows<V, T>), rows, taught);
}

// The rows, their totals, and the gradient of the bias.
template <int V, class T, class Operation>
void launch_all(const Operation& op, const Rows<T>& rows, const KernelContext& context) {
  launch_rows<V>(op, rows, context);
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = warps * sizeof(double)}),
                add_results, rows.losses, rows.correct, rows.rows, op.row_begin, rows.count, rows.weights,
                rows.counts, static_cast<StepResults*>(op.results.raw()));
  if (!op.gradient || !op.bias) return;
  const std::int64_t parts = row_parts(rows.rows), columns = rows.outer * rows.inner;
  auto* sums = reinterpret_cast<float*>(context.scratch);
  auto* dbias = op.dbias.template data<float>();
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {blocks_for(columns, warp * V), parts},
                             .threads = threads,
                             .shared_bytes = sizeof(float) * threads * V}),
                (bias_gradient_kernel<V, T>), rows.logits, rows.outer, rows.rows, rows.inner,
                blocks_for(rows.rows, parts), rows.classes, sums, dbias);
  if (parts > 1)
    add_part_sums(context.stream, {{.parts = sums,
                                    .apart = columns,
                                    .to = dbias,
                                    .count = static_cast<int>(parts),
                                    .columns = static_cast<int>(rows.classes)}});
}

// What both operations have; the rest of the struct is empty.
template <class T, class Operation>
Rows<T> rows_of(const Operation& op, const KernelContext& context) {
  Rows<T> rows{};
  rows.logits = op.logits.template data<T>();
  rows.bias = op.bias ? op.bias.template data<float>() : nullptr;
  rows.outer = op.logits.dim(0), rows.rows = op.logits.dim(1), rows.inner = op.logits.dim(2);
  rows.classes = op.classes;
  rows.count = op.count.template data<std::int32_t>();
  rows.row_begin = op.row_begin;
  rows.gradient = op.gradient;
  rows.losses = reinterpret_cast<double*>(context.scratch + scratch_of(op).losses);
  return rows;
}

template <class T, class Operation>
void launch(const Operation& op, const Rows<T>& rows, const KernelContext& context) {
  if (rows.rows == 0) return;
  constexpr int many = 16 / sizeof(T);
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  if (rows.inner % many == 0 && aligned(rows.logits) && aligned(rows.bias))
    launch_all<many>(op, rows, context);
  else
    launch_all<1>(op, rows, context);
}

template <class T>
void softmax_cross_entropy(const SoftmaxCrossEntropy& op, const KernelContext& context) {
  Rows<T> rows = rows_of<T>(op, context);
  rows.targets = op.targets.data<std::int32_t>();
  rows.weights = op.weights ? op.weights.data<float>() : nullptr;
  rows.correct = reinterpret_cast<float*>(context.scratch + scratch_of(op).correct);
  rows.counts = true;
  launch(op, rows, context);
}

template <class T>
void softmax_divergence(const SoftmaxDivergence& op, const KernelContext& context) {
  Rows<T> rows = rows_of<T>(op, context);
  rows.counts = op.counts;
  launch(op, rows, context);
}

template <class T>
void draw_classes(const DrawClasses& op, const KernelContext& context) {
  if (op.logits.dim(1) == 0) return;
  Rows<T> rows{};
  rows.logits = op.logits.data<T>();
  rows.bias = op.bias ? op.bias.data<float>() : nullptr;
  rows.rows = op.logits.dim(1), rows.inner = op.logits.dim(2), rows.classes = op.classes;
  rows.count = op.count.data<std::int32_t>();
  rows.row_begin = op.row_begin;
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = {rows.rows}, .threads = threads, .shared_bytes = (threads + 1) * sizeof(double)}),
      (draw_rows<T>), rows, static_cast<const StepInputs*>(op.step_inputs.raw()), op.site,
      op.drawn.data<std::int32_t>());
}

}  // namespace

void register_cross_entropy(Backend& backend, bool /*tf32*/) {
  backend.set<SoftmaxCrossEntropy>(DType::float32, softmax_cross_entropy<float>,
                                   softmax_cross_entropy_scratch);
  backend.set<DrawClasses>(DType::float32, draw_classes<float>);
  backend.set<DrawClasses>(DType::bfloat16, draw_classes<bfloat16>);
  backend.set<SoftmaxDivergence>(DType::float32, softmax_divergence<float>, softmax_divergence_scratch);
  backend.set<SoftmaxDivergence>(DType::bfloat16, softmax_divergence<bfloat16>, softmax_divergence_scratch);
  backend.set<SoftmaxCrossEntropy>(DType::bfloat16, softmax_cross_entropy<bfloat16>,
                                   softmax_cross_entropy_scratch);
}

}  // namespace comera::COMERA_CUDA
