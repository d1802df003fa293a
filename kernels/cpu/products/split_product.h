#pragma once

#include "kernels/cpu/products/bf16_blocks.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"

// Products of float32 matrices on a processor that multiplies bfloat16 much faster (AMX): each operand is the
// sum of two bfloat16 numbers, and three of the four products are computed. The relative error of a product
// of two numbers is about 2^-16; sums are float32.
COMERA_CPU_BEGIN

// Memory for the operands of the largest product; of one thread.
class SplitOperands {
 public:
  // elements: of the larger operand with both sides padded to whole blocks; longest: its longest row.
  SplitOperands(std::int64_t elements, std::int64_t longest, Scratch& scratch)
      : left_{scratch.narrow(elements), scratch.narrow(elements)},
        right_{scratch.narrow(elements), scratch.narrow(elements)},
        parts_{scratch.narrow(bf16_block * longest), scratch.narrow(bf16_block * longest)},
        sums_(scratch.floats(bf16_block * bf16_block)) {}

  // C (m x n) = op(A) op(B) of adjacent rows.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                const float* b, bool transpose_b, float* c) const {
    const std::int64_t depth = pack(m, n, k, a, transpose_a, b, transpose_b);
    for (std::int64_t j = 0; j < n; j += bf16_block)
      for (std::int64_t i = 0; i < m; i += bf16_block) {
        sum_block(i, j, depth);
        bf16_store(sums_, bf16_block, std::min(bf16_block, m - i), std::min(bf16_block, n - j), c + i * n + j,
                   n, false);
      }
  }

  // The same of a product that is known to be symmetric, which half of the blocks determine.
  void multiply_symmetric(std::int64_t n, std::int64_t k, const float* a, bool transpose_a, const float* b,
                          bool transpose_b, float* c) const {
    const std::int64_t depth = pack(n, n, k, a, transpose_a, b, transpose_b);
    for (std::int64_t j = 0; j < n; j += bf16_block)
      for (std::int64_t i = j; i < n; i += bf16_block) {
        const std::int64_t rows = std::min(bf16_block, n - i), columns = std::min(bf16_block, n - j);
        sum_block(i, j, depth);
        bf16_store(sums_, bf16_block, rows, columns, c + i * n + j, n, false);
        if (i == j) continue;
        transpose_sums();
        bf16_store(sums_, bf16_block, columns, rows, c + j * n + i, n, false);
      }
  }

 private:
  // Both operands in parts; returns their padded depth.
  std::int64_t pack(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                    const float* b, bool transpose_b) const {
    const std::int64_t depth = whole_blocks(k);
    // 32 rows at a time, as they lie in memory.
    const auto stripes = [&](const float* from, std::int64_t rows, std::int64_t columns,
                             const auto& pack_stripe) {
      for (std::int64_t r = 0; r < rows; r += bf16_block) {
        const std::int64_t some = std::min(bf16_block, rows - r);
        split(from + r * columns, some * columns);
        for (int part = 0; part < 2; ++part) pack_stripe(part, r, some);
      }
    };
    if (transpose_a)
      stripes(a, k, m, [&](int part, std::int64_t l, std::int64_t some) {
        for (std::int64_t i = 0; i < m; i += bf16_block)
          bf16_pack_rows(parts_[part] + i, m, true, std::min(bf16_block, m - i), some,
                         left_[part] + i * depth + l, depth);
      });
    else
      stripes(a, m, k, [&](int part, std::int64_t i, std::int64_t some) {
        bf16_pack_rows(parts_[part], k, false, some, k, left_[part] + i * depth, depth);
      });
    if (transpose_b)
      stripes(b, n, k, [&](int part, std::int64_t j, std::int64_t some) {
        bf16_pack_panel(parts_[part], k, true, k, some, right_[part] + j * depth);
      });
    else
      stripes(b, k, n, [&](int part, std::int64_t l, std::int64_t some) {
        for (std::int64_t j = 0; j < n; j += bf16_block)
          bf16_pack_panel(parts_[part] + j, n, false, some, std::min(bf16_block, n - j),
                          right_[part] + j * depth + l * bf16_block);
      });
    return depth;
  }

  void sum_block(std::int64_t i, std::int64_t j, std::int64_t depth) const {
    const auto add = [&](int of_a, int of_b, bool to_sums) {
      bf16_multiply({left_[of_a] + i * depth, depth, depth / bf16_block}, right_[of_b] + j * depth, sums_,
                    bf16_block, to_sums);
    };
    add(1, 0, false);  // the small ones first
    add(0, 1, true);
    add(0, 0, true);
  }

  void transpose_sums() const {
    __m512i quarter[2][2][16];
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) {
        for (int r = 0; r < 16; ++r)
          quarter[i][j][r] = _mm512_loadu_si512(sums_ + (16 * i + r) * bf16_block + 16 * j);
        transpose_pairs(quarter[i][j]);
      }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        for (int r = 0; r < 16; ++r)
          _mm512_storeu_si512(sums_ + (16 * j + r) * bf16_block + 16 * i, quarter[i][j][r]);
  }

  // Each number as a rounded one and the rounded rest, in the same order.
  void split(const float* from, std::int64_t count) const {
    for_columns(0, count, [&](std::int64_t i, auto at) {
      const vec whole = at.load(from + i);
      at.store(parts_[0] + i, whole);
      at.store(parts_[1] + i, whole - at.load(parts_[0] + i));
    });
  }

  bfloat16 *left_[2], *right_[2];
  bfloat16* parts_[2];  // of 32 rows
  float* sums_;
};

COMERA_CPU_END
