#include "kernels/ops/optimizers/optimizer.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void TouchRows::check() const {
  const char* name = "TouchRows";
  check_elements(name, "ids", ids, ids.elements(), DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_elements(name, "marks", marks, marks.elements(), DType::int32);
}

Work work_of(const TouchRows& op) { return {0, twice(op.ids)}; }

void ClearTouchedRows::check() const {
  const char* name = "ClearTouchedRows";
  check_tensor(name, "gradient", gradient, {gradient.dim(0), gradient.dim(1)}, compute());
  check_elements(name, "marks", marks, gradient.dim(0), DType::int32);
}

// The marked rows are not known in advance: all marks are read.
Work work_of(const ClearTouchedRows& op) { return {0, once(op.marks)}; }

void GradientNorm::check() const {
  const char* name = "GradientNorm";
  check_elements(name, "gradients", gradients, gradients.elements(), compute());
  check_elements(name, "norms", norms, norms.elements(), DType::float64);
  check_step_values(name, "segments", segments, norms.elements() * sizeof(ParameterSegment));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const GradientNorm& op) { return {0, once(op.gradients, op.segments, op.norms)}; }

void AdamW::check() const {
  const char* name = "AdamW";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "gradients", gradients, parameters.elements(), compute());
  check_elements(name, "moment1", moment1, moment1.elements(), compute());
  check_elements(name, "moment2", moment2, moment1.elements(), compute());
  check_step_values(name, "segments", segments, segment_count * sizeof(ParameterSegment));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

// As if all rows were marked, because the host does not know their number.
Work work_of(const AdamW& op) {
  return {0, once(op.segments) + 7 * bytes_of(op.elements, op.compute()) + (op.marks ? once(op.marks) : 0)};
}

void AverageParameters::check() const {
  const char* name = "AverageParameters";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "average", average, parameters.elements(), compute());
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const AverageParameters& op) { return {0, once(op.parameters) + twice(op.average)}; }

}  // namespace comera
