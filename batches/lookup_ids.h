#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Ids to look up in a table, with their order: int32 throughout. Entries beyond the counts hold valid ids.
struct LookupIds {
  Tensor ids;             // (T)
  Tensor count;           // (1): how many of the T are valid
  Tensor rows;            // (T) 0, 1, 2, ...
  Tensor unique_ids;      // (U) ascending
  Tensor unique_count;    // (1): how many of the U are valid
  Tensor unique_index;    // (T) index of each id in unique_ids
  Tensor unique_order;    // (T) rows sorted by id
  Tensor unique_offsets;  // (U + 1) into unique_order
  Tensor right_order;     // (U) indices into unique_ids, sorted by (id % right rows of a TTM, id)
};

}  // namespace comera
