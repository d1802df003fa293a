// Adam's directions of all tensors at once, LAMB's ratios, and the steps along them. Tensors are on the first
// axis of a grid, 64 parts of each on the second.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/ops/optimizers/directions.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int pieces = 64;
constexpr std::int64_t stride = std::int64_t{pieces} * threads;

__device__ __forceinline__ std::int64_t first_of_thread() {
  return std::int64_t{blockIdx.y} * threads + threadIdx.x;
}

struct Directions {
  float *directions, *moment1, *moment2;
  const ParameterSegment* segments;
  float beta1, rest1, beta2, rest2, eps;
  bool eps_before_correction;
  const StepInputs* inputs;
  const StepResults* results;
};

__global__ void __launch_bounds__(threads) adam_directions(Directions op) {
  if (op.results->nonfinite != 0) return;
  const ParameterSegment segment = op.segments[blockIdx.x];
  const auto scale = static_cast<float>(op.results->gradient_scale);
  const auto correction1 = static_cast<float>(op.inputs->bias_correction1);
  const auto correction2 = static_cast<float>(op.inputs->bias_correction2);
  const float root2 = sqrtf(correction2);
  for (std::int64_t i = first_of_thread(); i < segment.count; i += stride) {
    const float g = op.directions[segment.offset + i] * scale;
    const float m = op.beta1 * op.moment1[segment.moments + i] + op.rest1 * g;
    const float v = op.beta2 * op.moment2[segment.moments + i] + op.rest2 * g * g;
    op.moment1[segment.moments + i] = m;
    op.moment2[segment.moments + i] = v;
    op.directions[segment.offset + i] = op.eps_before_correction
                                            ? m * root2 / correction1 / (sqrtf(v) + op.eps)
                                            : m / correction1 / (sqrtf(v / correction2) + op.eps);
  }
}

struct Ratios {
  const float* parameters;
  float* directions;
  const ParameterSegment* segments;
  float weight_decay;
  double* partial;  // (tensors, pieces, 2)
  const StepResults* results;
};

__global__ void __launch_bounds__(threads) trust_sums(Ratios op) {
  auto* scratch = shared_array<double>(threads / warp);
  if (op.results->nonfinite != 0) return;
  const ParameterSegment segment = op.segments[blockIdx.x];
  const float decay = segment.decays != 0 ? op.weight_decay : 0;
  double parameter_squares = 0, direction_squares = 0;
  for (std::int64_t i = first_of_thread(); i < segment.count; i += stride) {
    const float p = op.parameters[segment.offset + i];
    const float d = op.directions[segment.offset + i] + decay * p;
    op.directions[segment.offset + i] = d;
    parameter_squares += static_cast<double>(p) * p;
    direction_squares += static_cast<double>(d) * d;
  }
  parameter_squares = block_sum(parameter_squares, scratch);
  direction_squares = block_sum(direction_squares, scratch);
  if (threadIdx.x > 0) return;
  double* partial = op.partial + 2 * (std::int64_t{blockIdx.x} * pieces + blockIdx.y);
  partial[0] = parameter_squares;
  partial[1] = direction_squares;
}

__global__ void __launch_bounds__(threads)
    trust_ratio(const double* partial, int segments, double* ratios, const StepResults* results) {
  const int s = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (s >= segments || results->nonfinite != 0) return;
  double parameter_squares = 0, direction_squares = 0;
  for (int i = 0; i < pieces; ++i) {
    parameter_squares += partial[2 * (std::int64_t{s} * pieces + i)];
    direction_squares += partial[2 * (std::int64_t{s} * pieces + i) + 1];
  }
  const bool either = parameter_squares == 0 || direction_squares == 0;
  ratios[s] = either ? 1 : sqrt(parameter_squares) / sqrt(direction_squares);
}

struct Moves {
  float* parameters;
  const float* directions;
  const ParameterSegment* segments;
  const double* factors;
  double weight_decay;
  const StepInputs* inputs;
  const StepResults* results;
};

__global__ void __launch_bounds__(threads) follow(Moves op) {
  if (op.results->nonfinite != 0) return;
  const ParameterSegment segment = op.segments[blockIdx.x];
  const double rate = op.inputs->learning_rate[segment.group];
  const auto step = static_cast<float>(rate * op.factors[blockIdx.x]);
  const auto decay = static_cast<float>(segment.decays != 0 ? rate * op.weight_decay : 0);
  for (std::int64_t i = first_of_thread(); i < segment.count; i += stride) {
    const float moved = op.parameters[segment.offset + i] - step * op.directions[segment.offset + i];
    op.parameters[segment.offset + i] = moved - decay * moved;
  }
}

const ParameterSegment* segments_of(const Tensor& segments) {
  return static_cast<const ParameterSegment*>(segments.raw());
}
const StepInputs* inputs_of(const Tensor& inputs) { return static_cast<const StepInputs*>(inputs.raw()); }
const StepResults* results_of(const Tensor& results) {
  return static_cast<const StepResults*>(results.raw());
}

void adam_direction(const AdamDirection& op, const KernelContext& context) {
  if (op.segment_count == 0) return;
  const Directions directions{
      op.directions.data<float>(),  op.moment1.data<float>(),         op.moment2.data<float>(),
      segments_of(op.segments),     static_cast<float>(op.beta1),     static_cast<float>(1 - op.beta1),
      static_cast<float>(op.beta2), static_cast<float>(1 - op.beta2), static_cast<float>(op.eps),
      op.eps_before_correction,     inputs_of(op.step_inputs),        results_of(op.results)};
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.segment_count, pieces}, .threads = threads}),
                adam_directions, directions);
}

std::size_t trust_ratios_scratch(const TrustRatios& op) {
  return static_cast<std::size_t>(op.segment_count()) * pieces * 2 * sizeof(double);
}

void trust_ratios(const TrustRatios& op, const KernelContext& context) {
  if (op.segment_count() == 0) return;
  auto* partial = reinterpret_cast<double*>(context.scratch);
  const Ratios ratios{op.parameters.data<float>(),
                      op.directions.data<float>(),
                      segments_of(op.segments),
                      static_cast<float>(op.weight_decay),
                      partial,
                      results_of(op.results)};
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {op.segment_count(), pieces},
                             .threads = threads,
                             .shared_bytes = threads / warp * sizeof(double)}),
                trust_sums, ratios);
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {blocks_for(op.segment_count(), threads)}, .threads = threads}),
                trust_ratio, partial, static_cast<int>(op.segment_count()), op.ratios.data<double>(),
                results_of(op.results));
}

void follow_directions(const FollowDirections& op, const KernelContext& context) {
  if (op.segment_count() == 0) return;
  const Moves moves{op.parameters.data<float>(),
                    op.directions.data<float>(),
                    segments_of(op.segments),
                    op.factors.data<double>(),
                    op.weight_decay,
                    inputs_of(op.step_inputs),
                    results_of(op.results)};
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.segment_count(), pieces}, .threads = threads}),
                follow, moves);
}

}  // namespace

void register_directions(Backend& backend, bool /*tf32*/) {
  backend.set<AdamDirection>(DType::float32, adam_direction);
  backend.set<TrustRatios>(DType::float32, trust_ratios, trust_ratios_scratch);
  backend.set<FollowDirections>(DType::float32, follow_directions);
}

}  // namespace comera::COMERA_CUDA
