#include "kernels/ops/optimizers/directions.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void AdamDirection::check() const {
  const char* name = "AdamDirection";
  check_elements(name, "directions", directions, directions.elements(), compute());
  check_elements(name, "moment1", moment1, moment1.elements(), compute());
  check_elements(name, "moment2", moment2, moment1.elements(), compute());
  check_step_values(name, "segments", segments, segment_count * sizeof(ParameterSegment));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const AdamDirection& op) {
  return {0, once(op.segments) + 6 * bytes_of(op.elements, op.compute())};
}

void TrustRatios::check() const {
  const char* name = "TrustRatios";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "directions", directions, parameters.elements(), compute());
  check_elements(name, "ratios", ratios, segment_count(), DType::float64);
  check_step_values(name, "segments", segments, segment_count() * sizeof(ParameterSegment));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const TrustRatios& op) {
  return {0, once(op.segments, op.ratios) + 3 * bytes_of(op.elements, op.compute())};
}

void FollowDirections::check() const {
  const char* name = "FollowDirections";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "directions", directions, parameters.elements(), compute());
  check_elements(name, "factors", factors, segment_count(), DType::float64);
  check_step_values(name, "segments", segments, segment_count() * sizeof(ParameterSegment));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const FollowDirections& op) {
  return {0, once(op.segments, op.factors) + 3 * bytes_of(op.elements, op.compute())};
}

}  // namespace comera
