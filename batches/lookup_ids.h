#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Ids that are looked up in a table, with their order: int32 throughout. Entries beyond the counts hold ids
// that exist.
struct LookupIds {
  Tensor ids;             // (T)
  Tensor count;           // (1): how many of the T are real
  Tensor rows;            // (T) 0, 1, 2, ...
  Tensor unique_ids;      // (U) ascending
  Tensor unique_count;    // (1): how many of the U are real
  Tensor unique_index;    // (T) place of each id in unique_ids
  Tensor unique_order;    // (T) rows sorted by id
  Tensor unique_offsets;  // (U + 1) into unique_order
  Tensor right_order;     // (U) places in unique_ids, sorted by (id % right rows of a TTM, id)
};

}  // namespace comera
