// The gradient's norm and AdamW, each over all parameters at once.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/optimizers/optimizer.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int norm_pieces = 64;  // blocks for each tensor

struct RowsTouched {
  static constexpr int at_once = 1;
  const std::int32_t *ids, *count;
  std::int32_t* marks;

  template <int V>
  __device__ void run(std::int64_t u) const {
    if (u < *count) marks[ids[u]] = 1;
  }
};

void touch_rows(const TouchRows& op, const KernelContext& context) {
  each(context.stream, RowsTouched{ints(op.ids), ints(op.count), op.marks.data<std::int32_t>()},
       op.ids.elements(), 1);
}

// One warp per row.
__global__ void __launch_bounds__(threads)
    clear_touched_kernel(float* gradient, std::int32_t* marks, std::int64_t rows, std::int64_t width) {
  const std::int64_t row = std::int64_t{blockIdx.x} * (threads / warp) + threadIdx.x / warp;
  if (row >= rows || marks[row] == 0) return;
  const int lane = static_cast<int>(threadIdx.x % warp);
  __syncwarp();  // all lanes have read the mark
  for (std::int64_t c = lane; c < width; c += warp) gradient[row * width + c] = 0;
  if (lane == 0) marks[row] = 0;
}

void clear_touched_rows(const ClearTouchedRows& op, const KernelContext& context) {
  const std::int64_t rows = op.gradient.dim(0);
  if (rows == 0) return;
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {blocks_for(rows, threads / warp)}, .threads = threads}),
                clear_touched_kernel, op.gradient.data<float>(), op.marks.data<std::int32_t>(), rows,
                op.gradient.dim(1));
}

// Whether element i of the segment lies in a row that the step has not looked up.
__device__ __forceinline__ bool is_idle(const ParameterSegment& segment, const std::int32_t* marks,
                                        std::int64_t i) {
  return segment.width > 0 && marks[segment.marks + i / segment.width] == 0;
}

const std::int32_t* marks_in(const Tensor& marks) { return marks ? ints(marks) : nullptr; }

// Each block sums every 64th part of a tensor, in double: (tensors, pieces).
__global__ void __launch_bounds__(threads)
    squared_norms(const float* gradients, const ParameterSegment* segments, const std::int32_t* marks,
                  double* partial) {
  auto* scratch = shared_array<double>(threads / warp);
  const ParameterSegment segment = segments[blockIdx.x];
  const float* g = gradients + segment.offset;
  const std::int64_t first = std::int64_t{blockIdx.y} * threads;
  if (first >= segment.count) {  // true for most blocks, since cores are small
    if (threadIdx.x == 0) partial[blockIdx.x * norm_pieces + blockIdx.y] = 0;
    return;
  }
  double sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < segment.count; i += norm_pieces * threads)
    if (!is_idle(segment, marks, i)) sum += static_cast<double>(g[i]) * g[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x * norm_pieces + blockIdx.y] = sum;
}

// One block: the tensors' norms, their sum, and the derived values.
__global__ void __launch_bounds__(threads) total_norm(const double* partial, int segments, double* norms,
                                                      const StepInputs* inputs, StepResults* results) {
  auto* scratch = shared_array<double>(threads / warp);
  double total = 0;
  for (int s = static_cast<int>(threadIdx.x); s < segments; s += threads) {
    double norm = 0;
    for (int p = 0; p < norm_pieces; ++p) norm += partial[s * norm_pieces + p];
    norms[s] = norm;
    total += norm;
  }
  total = block_sum(total, scratch);  // and all norms are written
  const double per_target = inputs->targets > 0 ? 1 / inputs->targets : 0;
  const double norm = sqrt(total) * per_target;
  double scale = per_target;
  if (inputs->max_norm > 0 && norm > inputs->max_norm) scale *= inputs->max_norm / norm;
  // The first tensor whose gradient is not finite, or would overflow when squared.
  int first = segments;
  for (int s = static_cast<int>(threadIdx.x); s < segments && first == segments; s += threads)
    if (isfinite(total) ? isfinite(results->loss_sum) && norms[s] * scale * scale > most_squared_norm
                        : !isfinite(norms[s]))
      first = s;
  first = block_least(first, reinterpret_cast<int*>(scratch));
  if (threadIdx.x > 0) return;
  results->nonfinite = !isfinite(total) || !isfinite(results->loss_sum) || first < segments ? 1 : 0;
  results->first_nonfinite = first < segments ? first : -1;
  results->gradient_norm = norm;
  results->gradient_scale = scale;
}

std::size_t gradient_norm_scratch(const GradientNorm& op) {
  return static_cast<std::size_t>(op.segment_count()) * norm_pieces * sizeof(double);
}

void gradient_norm(const GradientNorm& op, const KernelContext& context) {
  const auto* segments = static_cast<const ParameterSegment*>(op.segments.raw());
  auto* partial = reinterpret_cast<double*>(context.scratch);
  const std::size_t shared_bytes = threads / warp * sizeof(double);
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{
          .grid = {op.segment_count(), norm_pieces}, .threads = threads, .shared_bytes = shared_bytes}),
      squared_norms, op.gradients.data<float>(), segments, marks_in(op.marks), partial);
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = shared_bytes}), total_norm,
                partial, static_cast<int>(op.segment_count()), op.norms.data<double>(),
                static_cast<const StepInputs*>(op.step_inputs.raw()),
                static_cast<StepResults*>(op.results.raw()));
}

struct Update {
  float *parameters, *moment1, *moment2;
  const float* gradients;
  const ParameterSegment* segments;  // by increasing offset
  std::int64_t segment_count;
  const std::int32_t* marks;
  float beta1, rest1, beta2, rest2, eps, weight_decay;  // rest: 1 - beta, rounded once
  const StepInputs* inputs;
  const StepResults* results;
};

// Each thread updates four neighbouring elements.
__global__ void __launch_bounds__(threads) adamw_kernel(Update op) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * 4;
  if (op.results->nonfinite != 0) return;
  // The last segment that begins at or before i.
  std::int64_t first = 0, last = op.segment_count;
  while (last - first > 1) {
    const std::int64_t middle = (first + last) / 2;
    if (op.segments[middle].offset <= i)
      first = middle;
    else
      last = middle;
  }
  const float scale = static_cast<float>(op.results->gradient_scale);
  const float correction1 = static_cast<float>(op.inputs->bias_correction1);
  const float correction2 = static_cast<float>(op.inputs->bias_correction2);
  for (std::int64_t j = i; j < i + 4; ++j) {
    while (first + 1 < op.segment_count && op.segments[first + 1].offset <= j) ++first;
    const ParameterSegment segment = op.segments[first];
    if (j < segment.offset || j >= segment.offset + segment.count) continue;  // between or after tensors
    if (is_idle(segment, op.marks, j - segment.offset)) continue;
    const float rate = static_cast<float>(op.inputs->learning_rate[segment.group]);
    const float decay = segment.decays != 0 ? op.weight_decay : 0;
    const float g = op.gradients[j] * scale;
    const std::int64_t state = segment.moments + (j - segment.offset);
    const float m = op.beta1 * op.moment1[state] + op.rest1 * g;
    const float v = op.beta2 * op.moment2[state] + op.rest2 * g * g;
    const float p = op.parameters[j];
    op.moment1[state] = m;
    op.moment2[state] = v;
    op.parameters[j] = p - rate * (m / correction1 / (sqrtf(v / correction2) + op.eps) + decay * p);
  }
}

void adamw(const AdamW& op, const KernelContext& context) {
  const std::int64_t count = op.parameters.elements();
  if (count == 0 || op.segment_count == 0) return;
  const Update update{op.parameters.data<float>(),
                      op.moment1.data<float>(),
                      op.moment2.data<float>(),
                      op.gradients.data<float>(),
                      static_cast<const ParameterSegment*>(op.segments.raw()),
                      op.segment_count,
                      marks_in(op.marks),
                      static_cast<float>(op.beta1),
                      static_cast<float>(1 - op.beta1),
                      static_cast<float>(op.beta2),
                      static_cast<float>(1 - op.beta2),
                      static_cast<float>(op.eps),
                      static_cast<float>(op.weight_decay),
                      static_cast<const StepInputs*>(op.step_inputs.raw()),
                      static_cast<const StepResults*>(op.results.raw())};
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {blocks_for(count, 4 * threads)}, .threads = threads}),
                adamw_kernel, update);
}

struct Averaged {
  const float* parameters;
  float* average;
  const StepInputs* inputs;
  const StepResults* results;
  template <int V>
  __device__ void run(std::int64_t i) const {
    if (results->nonfinite != 0) return;
    const auto weight = static_cast<float>(inputs->average_weight);
    const Values<V> p = load<V>(parameters + i);
    Values<V> a = load<V>(average + i);
#pragma unroll
    for (int k = 0; k < V; ++k) a.at[k] = p.at[k] == 0 ? 0 : a.at[k] + weight * (p.at[k] - a.at[k]);
    store(average + i, a);
  }
};

void average_parameters(const AverageParameters& op, const KernelContext& context) {
  const std::int64_t count = op.parameters.elements();
  each(context.stream,
       Averaged{op.parameters.data<float>(), op.average.data<float>(),
                static_cast<const StepInputs*>(op.step_inputs.raw()),
                static_cast<const StepResults*>(op.results.raw())},
       count, count);
}

}  // namespace

void register_optimizer(Backend& backend, bool /*tf32*/) {
  backend.set<TouchRows>(DType::float32, touch_rows);
  backend.set<ClearTouchedRows>(DType::float32, clear_touched_rows);
  backend.set<GradientNorm>(DType::float32, gradient_norm, gradient_norm_scratch);
  backend.set<AdamW>(DType::float32, adamw);
  backend.set<AverageParameters>(DType::float32, average_parameters);
}

}  // namespace comera::COMERA_CUDA
