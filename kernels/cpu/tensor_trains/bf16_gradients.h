#pragma once

#include "kernels/cpu/products/bf16_operand.h"
#include "kernels/cpu/tensor_trains/tt_linear_parts.h"

// Shared by the backward passes of tensor trains in bfloat16. Tokens are divided into groups with separate
// sums, as in tt_linear_parts.h, and a group into blocks of rows.
COMERA_CPU_BEGIN

inline constexpr std::int64_t bf16_most_rows = 128;  // of a block

// Sums of a weight's gradient, in whole blocks.
inline WeightSums bf16_weight_sums(std::int64_t rank, std::int64_t columns, Scratch& scratch) {
  static_assert(panel_width == bf16_block);
  return {whole_blocks(rank), columns, scratch};
}

// A block of rows of a group; panel: memory for bf16_most_rows x 32.
struct Bf16RowBlock {
  std::int64_t begin, rows;
  bool first;  // of its group: sums are set instead of added to
  bfloat16* panel;

  std::int64_t rows_from(std::int64_t i) const { return std::min(bf16_block, rows - i); }

  // The transpose of these rows of x (rows x width), as a left operand.
  void pack_across(const bfloat16* x, std::int64_t ld, std::int64_t width, const Bf16Block& across) const {
    for (std::int64_t i = 0; i < width; i += bf16_block)
      bf16_pack_rows(x + i, ld, true, std::min(bf16_block, width - i), rows, across.at + i * across.ld,
                     across.ld);
  }

  // sums (rank x columns) = left right, or +=; left: a transpose, right: these rows, with stride `ld`.
  void weight_gradient(const Bf16Block& left, std::int64_t rank, const bfloat16* right, std::int64_t ld,
                       std::int64_t columns, const WeightSums& sums, std::int64_t first_column = 0) const {
    const std::int64_t steps = whole_blocks(rows) / bf16_block;
    for (std::int64_t j = 0; j < columns; j += bf16_block) {
      bf16_pack_panel(right + j, ld, false, rows, std::min(bf16_block, columns - j), panel);
      if (j + bf16_block < columns)
        for (std::int64_t r = 0; r < rows; ++r) __builtin_prefetch(right + r * ld + j + bf16_block);
      for (std::int64_t i = 0; i < rank; i += bf16_block)
        bf16_multiply({left.at + i * left.ld, left.ld, steps, nullptr, last_pairs(rows),
                       std::min(bf16_block, rank - i)},
                      panel, sums.panel(first_column + j) + i * bf16_block, bf16_block, !first, columns - j);
    }
  }
};

COMERA_CPU_END
