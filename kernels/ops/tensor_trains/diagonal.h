#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// A diagonal beside a linear layer of N inputs and M outputs, one of which divides the other: it passes each
// input on to the outputs that have its index, modulo the smaller size.
//
//   u[t, j] += d[j] x[t, j mod N]                     where M >= N
//   u[t, j] += Σ_i d[i] x[t, i], i = j, j + M, …      otherwise
struct DiagonalForward {
  Tensor x;         // (T, N)
  Tensor diagonal;  // (max(N, M))
  Tensor u;         // in and out (T, M)

  DType compute() const { return x.dtype(); }
  void check() const;
};

//   dx[t, i] += Σ_j d[j] du[t, j], j = i, i + N, …    where M >= N
//   dx[t, i] += d[i] du[t, i mod M]                   otherwise
//   dd += the column sums of what d multiplies with its gradient
struct DiagonalBackward {
  Tensor x;          // (T, N)
  Tensor diagonal;   // (max(N, M))
  Tensor du;         // (T, M)
  Tensor dx;         // in and out (T, N)
  Tensor ddiagonal;  // in and out (max(N, M))

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
