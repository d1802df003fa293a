#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// y = x mask scale, element by flat index (kernels/shared/dropout.h); its own gradient.
struct Dropout {
  Tensor x;  // any shape
  DropoutSpec dropout;
  Tensor step_inputs;
  Tensor y;  // out, as x; may be x itself

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
