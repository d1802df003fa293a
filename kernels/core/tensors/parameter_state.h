#pragma once

#include <string>

#include "kernels/core/tensors/parameter.h"

namespace comera {

// A tensor that is kept beside a parameter from step to step, such as an optimizer's first moment.
struct ParameterState {
  ParameterId parameter = -1;
  std::string name;       // "m"; a parameter has one state of a name
  Tensor values;          // in the memory of the store's allocator
  bool entrywise = true;  // it has the parameter's shape, and a number goes where the parameter's entry goes
  bool optional = false;  // checkpoints of earlier versions lack it; it then stays as it is
};

}  // namespace comera
