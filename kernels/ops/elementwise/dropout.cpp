#include "kernels/ops/elementwise/dropout.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void Dropout::check() const {
  check_elements("Dropout", "x", x, x.elements(), compute());
  check_elements("Dropout", "y", y, x.elements(), compute());
  if (dropout.active()) check_step_values("Dropout", "step_inputs", step_inputs, sizeof(StepInputs));
}

Work work_of(const Dropout& op) { return {0, once(op.x, op.y)}; }

}  // namespace comera
