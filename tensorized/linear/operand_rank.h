#pragma once

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/products/float8.h"

namespace comera {

// The columns of A, and rows of B, where they are operands of products: the rank, padded with a few zeros.
// Rows of narrow operands then begin at multiples of 16 bytes, which tensor cores read fastest.
constexpr std::int64_t operand_rank(std::int64_t rank, DType compute, bool float8) {
  constexpr std::int64_t narrow_multiple = 8;
  if (float8) return float8_padded(rank);
  if (compute != DType::bfloat16) return rank;
  return (rank + narrow_multiple - 1) / narrow_multiple * narrow_multiple;
}

}  // namespace comera
