#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// All rows of some left rows of a tensor-train matrix, for a tied decoder:
//   rows[l R + r][a nr + b] = Σ_k left[l, a, k] right[k, r, b],   R = right's rows
// Sums are in the master type and rounded once, to the rows' own. Where that is narrow, a kernel may round
// the factors to it first.
struct TTMTableForward {
  Tensor left;   // (L, nl, rank), of the master type
  Tensor right;  // (rank, R, nr), of the master type
  Tensor rows;   // out (L R, nl nr)

  DType compute() const { return rows.dtype(); }
  void check() const;
};

//   dleft[l, a, k] += Σ_rb drows[l R + r][a nr + b] right[k, r, b];   dright alike, with left
struct TTMTableBackward {
  Tensor left, right;    // as above, of drows' master type
  Tensor drows;          // (L R, nl nr), of any type
  Tensor dleft, dright;  // in and out, shaped as left and right

  DType compute() const { return drows.dtype(); }
  void check() const;
};

}  // namespace comera
