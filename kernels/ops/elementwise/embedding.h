#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// y[t] = rows[index[t]] + positions[position_ids[t]] + types[type_ids[t]]; positions may be left out. rows is
// a dense table (index: token ids) or the looked-up rows of the unique ids (index: index into them).
struct EmbeddingSum {
  Tensor rows;          // (R, width)
  Tensor index;         // int32 (T)
  Tensor positions;     // (max positions, width), or left out
  Tensor position_ids;  // int32 (T); not read without positions
  Tensor types;         // (types, width)
  Tensor type_ids;      // int32 (T)
  Tensor y;             // out (T, width)

  DType compute() const { return y.dtype(); }
  void check() const;
};

// out[u] = Σ dy[order[i]], i in [offsets[u], offsets[u+1]), in that order, so that the sum is deterministic.
// With ids, the sums are added to a table instead: out[ids[u]] += ... Rows u at and beyond count are 0
// (unchanged with ids). A row may be summed several times, or never: bags of ids are sums of a table's rows.
struct SegmentSum {
  Tensor dy;       // (rows, width)
  Tensor order;    // int32 (T) rows of dy: for tokens, sorted by id
  Tensor offsets;  // int32 (U + 1)
  Tensor count;    // int32 (1): how many of the U are valid
  Tensor ids;      // int32 (U) ascending, or left out
  Tensor out;      // (U, width), or in and out (table rows, width) with ids

  DType compute() const { return dy.dtype(); }
  void check() const;
};

// table[ids[t]] += dy[t] for t below count, for small tables; each sum runs in the order of t.
struct TableGradient {
  Tensor dy;      // (T, width)
  Tensor ids;     // int32 (T)
  Tensor count;   // int32 (1)
  Tensor dtable;  // in and out (rows, width)

  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
