#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// y[i] = x[indices[i]] for i below count, 0 beyond.
struct GatherRows {
  Tensor x;        // (rows, width)
  Tensor indices;  // int32, at least as many as y has rows
  Tensor count;    // int32 (1)
  Tensor y;        // out (n, width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

// dx = 0, then dx[indices[i]] = dy[i] for i below count. Indices below count are distinct.
struct ScatterRows {
  Tensor dy;       // (n, width)
  Tensor indices;  // int32, at least n
  Tensor count;    // int32 (1)
  Tensor dx;       // out (rows, width)

  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
