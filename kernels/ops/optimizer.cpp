#include "kernels/ops/optimizer.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

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

Work work_of(const AdamW& op) { return {0, once(op.segments) + 7 * bytes_of(op.elements, op.compute())}; }

}  // namespace comera
