#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// A gate on the last axis: y[i, j] = x[i, j] gate[j]. Rows of y are ldy elements apart (0: adjacent).
struct ScaleColumnsForward {
  Tensor x;     // (rows, width)
  Tensor gate;  // (width)
  Tensor y;     // out; flat memory of rows ldy apart
  std::int64_t ldy = 0;

  DType compute() const { return x.dtype(); }
  void check() const;
};

//   dx[i, j] = dy[i, j] gate[j], or dx += with accumulate_dx;   dgate[j] += Σ_i dy[i, j] x[i, j]
struct ScaleColumnsBackward {
  Tensor x;     // (rows, width)
  Tensor gate;  // (width)
  Tensor dy;    // flat memory of rows ldy apart
  std::int64_t ldy = 0;
  Tensor dx;  // out (rows, width); may be dy if its rows are adjacent
  bool accumulate_dx = false;
  Tensor dgate;  // in and out (width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
