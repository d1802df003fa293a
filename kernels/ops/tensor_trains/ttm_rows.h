#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Rows of a tensor-train matrix from its left and right factors, for ids u < count (0 beyond):
//   rows[u][a nr + b] = Σ_k left[id / R][a][k] right[id % R][k][b],   R = right's rows
// Ids below F have the rows of `frequent` instead.
struct TTMRowsForward {
  Tensor left;           // (L, nl, rank)
  Tensor right;          // (R, rank, nr)
  Tensor ids;            // int32 (U)
  Tensor count;          // int32 (1)
  Tensor frequent = {};  // (F, nl nr), or left out: F is 0
  Tensor rows;           // out (U, nl nr)

  DType compute() const { return rows.dtype(); }
  void check() const;
};

//   dleft[id / R] += drow right[id % R]ᵀ;   dright[id % R] += left[id / R]ᵀ drow
// ids ascend, so ids with the same left row are adjacent; right_order sorts them so that ids with the same
// right row are. Both sums are deterministic without atomics. Of ids below F only dfrequent[id] += drow.
struct TTMRowsBackward {
  Tensor left;            // (L, nl, rank)
  Tensor right;           // (R, rank, nr)
  Tensor ids;             // int32 (U), ascending
  Tensor right_order;     // int32 (U): indices into ids, sorted by (id % R, id)
  Tensor count;           // int32 (1)
  Tensor drows;           // (U, nl nr)
  Tensor dleft, dright;   // in and out, shaped as left and right
  Tensor dfrequent = {};  // in and out (F, nl nr), or left out: F is 0

  DType compute() const { return drows.dtype(); }
  void check() const;
};

}  // namespace comera
