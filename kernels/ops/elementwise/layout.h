#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// (outer, p, q, inner) -> (outer, q, p, inner)
struct SwapAxes {
  Tensor x;  // (outer, p, q, inner)
  Tensor y;  // out (outer, q, p, inner)

  DType compute() const { return x.dtype(); }
  void check() const;
};

struct Fill {
  Tensor x;  // out
  double value = 0;

  DType compute() const { return x.dtype(); }
  void check() const;
};

// y = x in the type of y, rounded to nearest. Between floating-point types.
struct Cast {
  Tensor x;  // any shape
  Tensor y;  // out, same number of elements

  DType compute() const { return y.dtype(); }
  void check() const;
};

// y += x
struct Add {
  Tensor x;  // any shape
  Tensor y;  // in and out, same number of elements

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
