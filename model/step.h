#pragma once

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera {

// What a model's forward and backward are given besides their tensors.
struct Step {
  const Context& context;
  const ParameterStore& store;
  Tensor inputs;         // StepInputs
  Tensor results;        // StepResults
  bool training = true;  // with dropout, and what else only training sees

  DropoutSpec dropout(double probability, std::uint32_t site) const {
    return {training ? probability : 0, site};
  }
};

}  // namespace comera
