#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// y = x mask scale, dropout index = flat index (kernels/shared/dropout.h); the gradient is the same
// operation.
struct Dropout {
  Tensor x;  // any shape
  DropoutSpec dropout;
  Tensor step_inputs;
  Tensor y;  // out, shaped as x; may be x

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
