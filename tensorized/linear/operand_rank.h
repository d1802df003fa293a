#pragma once

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/products/float8.h"

namespace comera {

// How many columns A has, and rows B, where they are operands of products: as many as the rank, or a few more
// that are zero. Rows of narrow operands begin at multiples of 16 bytes then, which is how tensor cores read
// them fastest.
constexpr std::int64_t operand_rank(std::int64_t rank, DType compute, bool float8) {
  constexpr std::int64_t narrow_multiple = 8;
  if (float8) return float8_padded(rank);
  if (compute != DType::bfloat16) return rank;
  return (rank + narrow_multiple - 1) / narrow_multiple * narrow_multiple;
}

}  // namespace comera
