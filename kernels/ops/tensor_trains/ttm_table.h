#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// All rows of some left rows of a tensor-train matrix, for a tied decoder:
//   rows[l R + r][a nr + b] = Σ_k left[l, a, k] right[k, r, b],   R = right's rows
// The factors are contracted in the master type; rows are rounded once, to their own.
struct TTMTableForward {
  Tensor left;   // (L, nl, rank), of the master type
  Tensor right;  // (rank, R, nr), of the master type
  Tensor rows;   // out (L R, nl nr)

  DType compute() const { return rows.dtype(); }
  void check() const;
};

//   dleft[l, a, k] += Σ_rb drows[l R + r][a nr + b] right[k, r, b];   dright alike, with left
struct TTMTableBackward {
  Tensor left, right;    // as above
  Tensor drows;          // (L R, nl nr), of the master type
  Tensor dleft, dright;  // in and out, shaped as left and right

  DType compute() const { return drows.dtype(); }
  void check() const;
};

}  // namespace comera
