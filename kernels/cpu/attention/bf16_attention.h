#pragma once

#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/products/bf16_operand.h"

// Shared by attention's two passes in bfloat16.
COMERA_CPU_BEGIN

// Packs rows of a sequence (k or v of a head) into panels: as they are, or transposed.
inline void bf16_pack_sequence(const bfloat16* x, std::int64_t ld, std::int64_t length, std::int64_t width,
                               bool across, bfloat16* panels) {
  const std::int64_t k = across ? width : length, n = across ? length : width;
  for (std::int64_t j = 0; j < n; j += bf16_block)
    bf16_pack_panel(x + (across ? j * ld : j), ld, across, k, std::min(bf16_block, n - j),
                    panels + j * whole_blocks(k));
}

// C = A B for 32 rows and n columns; the sums have row stride `ld`.
inline void bf16_row_product(const Bf16Rows& rows, const bfloat16* panels, std::int64_t k, std::int64_t n,
                             float* sums, std::int64_t ld, bool add) {
  for (std::int64_t j = 0; j < n; j += bf16_block)
    bf16_multiply(rows, panels + j * whole_blocks(k), sums + j, ld, add, n - j);
}

inline std::int64_t bf16_score_stride(std::int64_t longest) { return whole_blocks(longest) + 16; }

// Zeroes the end of a row that is a left operand.
inline void clear_rest(bfloat16* row, std::int64_t length) {
  std::fill(row + length, row + whole_blocks(length), bfloat16(0.F));
}

COMERA_CPU_END
