#pragma once

#include <string>

#include "kernels/core/tensors/parameter.h"

namespace comera {

// A tensor kept with a parameter from step to step, such as an optimizer's first moment.
struct ParameterState {
  ParameterId parameter = -1;
  std::string name;       // "m"; unique per parameter
  Tensor values;          // in the memory of the store's allocator
  bool entrywise = true;  // has the parameter's shape, with one value per entry
  bool optional = false;  // missing in checkpoints of earlier versions; then it is unchanged
};

}  // namespace comera
