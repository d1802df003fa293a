#include "kernels/ops/muon.h"

#include "kernels/ops/checks.h"

namespace comera {

void Muon::check() const {
  const char* name = "Muon";
  check_elements(name, "parameters", parameters, parameters.elements(), compute());
  check_elements(name, "gradients", gradients, parameters.elements(), compute());
  check_elements(name, "momentum", momentum, parameters.elements(), compute());
  check_step_values(name, "matrices", matrices, sizes.count * sizeof(MuonMatrix));
  check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  check_step_values(name, "results", results, sizeof(StepResults));
}

}  // namespace comera
