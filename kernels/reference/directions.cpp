#include "kernels/ops/optimizers/directions.h"

#include <cmath>

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class Operation>
const ParameterSegment* segments_of(const Operation& op) {
  return static_cast<const ParameterSegment*>(op.segments.raw());
}
template <class Operation>
bool skipped(const Operation& op) {
  return static_cast<const StepResults*>(op.results.raw())->nonfinite != 0;
}

template <class T>
void adam_direction(const AdamDirection& op, const KernelContext&) {
  if (skipped(op)) return;
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const T scale = static_cast<T>(static_cast<const StepResults*>(op.results.raw())->gradient_scale);
  const T c1 = static_cast<T>(inputs.bias_correction1), c2 = static_cast<T>(inputs.bias_correction2);
  const T eps = static_cast<T>(op.eps);
  for (std::int64_t s = 0; s < op.segment_count; ++s) {
    const ParameterSegment segment = segments_of(op)[s];
    for (std::int64_t i = 0; i < segment.count; ++i) {
      T& d = op.directions.data<T>()[segment.offset + i];
      T& m = op.moment1.data<T>()[segment.moments + i];
      T& v = op.moment2.data<T>()[segment.moments + i];
      const T g = d * scale;
      m = static_cast<T>(op.beta1) * m + static_cast<T>(1 - op.beta1) * g;
      v = static_cast<T>(op.beta2) * v + static_cast<T>(1 - op.beta2) * g * g;
      d = op.eps_before_correction ? m * std::sqrt(c2) / c1 / (std::sqrt(v) + eps)
                                   : m / c1 / (std::sqrt(v / c2) + eps);
    }
  }
}

template <class T>
void trust_ratios(const TrustRatios& op, const KernelContext&) {
  if (skipped(op)) return;
  for (std::int64_t s = 0; s < op.segment_count(); ++s) {
    const ParameterSegment segment = segments_of(op)[s];
    const T decay = static_cast<T>(segment.decays != 0 ? op.weight_decay : 0);
    double parameter_squares = 0, direction_squares = 0;
    for (std::int64_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      const T p = op.parameters.data<T>()[i];
      T& d = op.directions.data<T>()[i];
      if (segment.decays != 0) d += decay * p;
      parameter_squares += static_cast<double>(p) * p;
      direction_squares += static_cast<double>(d) * d;
    }
    const bool either = parameter_squares == 0 || direction_squares == 0;
    op.ratios.data<double>()[s] = either ? 1 : std::sqrt(parameter_squares) / std::sqrt(direction_squares);
  }
}

template <class T>
void follow_directions(const FollowDirections& op, const KernelContext&) {
  if (skipped(op)) return;
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  for (std::int64_t s = 0; s < op.segment_count(); ++s) {
    const ParameterSegment segment = segments_of(op)[s];
    const double rate = inputs.learning_rate[segment.group];
    const T step = static_cast<T>(rate * op.factors.data<double>()[s]);
    const T decay = static_cast<T>(segment.decays != 0 ? rate * op.weight_decay : 0);
    for (std::int64_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      T& p = op.parameters.data<T>()[i];
      p -= step * op.directions.data<T>()[i];
      p -= decay * p;
    }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<AdamDirection>(dtype_of<T>, adam_direction<T>);
  backend.set<TrustRatios>(dtype_of<T>, trust_ratios<T>);
  backend.set<FollowDirections>(dtype_of<T>, follow_directions<T>);
}

}  // namespace

void register_directions(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
