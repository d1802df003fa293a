#pragma once

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera {

// The inputs of a model's forward and backward besides tensors.
struct Step {
  const Context& context;
  const ParameterStore& store;
  Tensor inputs;         // StepInputs
  Tensor results;        // StepResults
  bool training = true;  // enables dropout and everything else that only training uses

  DropoutSpec dropout(double probability, std::uint32_t site) const {
    return {training ? probability : 0, site};
  }
};

}  // namespace comera
