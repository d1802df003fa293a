#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Operations on ids between a generator and a discriminator (Clark et al., 2020: ELECTRA). All tensors are
// int32 but where it is said; `parameters` only chooses the kernel.

// What the discriminator reads: the tokens with the drawn ids at the masked positions. `replaced` is 1 where
// that changes the original id, and 0 elsewhere: a draw of the original counts as original.
struct ReplaceTokens {
  Tensor token_ids;  // (T)
  Tensor positions;  // (P) ascending token rows
  Tensor targets;    // (P) the original ids there
  Tensor drawn;      // (P)
  Tensor count;      // (1): how many of the P are valid
  DType parameters = DType::float32;
  Tensor y;         // out (T)
  Tensor replaced;  // out (T) float32

  DType compute() const { return parameters; }
  void check() const;
};

// The order of ids for lookups in their table (batches/lookup_ids.h), found on the device.
struct OrderIds {
  Tensor ids;                   // (T), at least 0
  Tensor count;                 // (1): how many of the T are valid
  std::int64_t right_rows = 0;  // of a tensor-train matrix; 0: right_order is the identity
  DType parameters = DType::float32;
  Tensor unique_ids;      // out (U) ascending, 0 beyond their count; U is at least that count
  Tensor unique_count;    // out (1)
  Tensor unique_index;    // out (T) index of each id in unique_ids, 0 beyond the count
  Tensor unique_order;    // out (T) rows sorted stably by id, 0 beyond the count
  Tensor unique_offsets;  // out (U + 1) into unique_order; the count beyond theirs
  Tensor
      right_order;  // out (U) indices into unique_ids sorted by (id % right_rows, id), 0 beyond their count

  DType compute() const { return parameters; }
  void check() const;
};

}  // namespace comera
