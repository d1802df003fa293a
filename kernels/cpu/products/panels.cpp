#include "kernels/cpu/products/panels.h"

COMERA_CPU_BEGIN

namespace {
__m256 load8(const float* p) { return _mm256_loadu_ps(p); }
__m256 load8(const bfloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// to[j][i] = from[i][j] of an 8 x 8 block.
template <class T>
void transpose8(const T* from, std::int64_t from_apart, float* to, std::int64_t to_apart) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = load8(from + i * from_apart);
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int half = 0; half < 8; half += 4) {
    r[half] = _mm256_shuffle_ps(s[half], s[half + 2], 0x44);
    r[half + 1] = _mm256_shuffle_ps(s[half], s[half + 2], 0xEE);
    r[half + 2] = _mm256_shuffle_ps(s[half + 1], s[half + 3], 0x44);
    r[half + 3] = _mm256_shuffle_ps(s[half + 1], s[half + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_apart, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_apart, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
}  // namespace

template <class T>
void pack_transposed(const T* b, std::int64_t ldb, std::int64_t k, std::int64_t n, float* panels) {
  const std::int64_t blocks = k / 8 * 8;
  for (std::int64_t j = 0; j < n; j += panel_width, panels += k * panel_width) {
    for (std::int64_t c = 0; c < panel_width; c += 8) {
      const std::int64_t columns = std::clamp<std::int64_t>(n - j - c, 0, 8);
      const T* from = b + (j + c) * ldb;
      std::int64_t l = 0;
      if (columns == 8) {
        for (; l < blocks; l += 8) transpose8(from + l, ldb, panels + l * panel_width + c, panel_width);
      }
      for (; l < k; ++l) {
        for (std::int64_t i = 0; i < 8; ++i) {
          panels[l * panel_width + c + i] = i < columns ? static_cast<float>(from[i * ldb + l]) : 0.F;
        }
      }
    }
  }
}

template void pack_transposed<float>(const float*, std::int64_t, std::int64_t, std::int64_t, float*);
template void pack_transposed<bfloat16>(const bfloat16*, std::int64_t, std::int64_t, std::int64_t, float*);

void multiply_panel(const Left& left, const float* panel, std::int64_t m, std::int64_t k, float* c,
                    Into into) {
  for (std::int64_t i = 0; i < m; i += tile_rows) {
    for_rows(m - i, [&]<int Rows>() {
      fetch_to_write<Rows>(c + i * panel_width, panel_width);
      one_tile<Rows>(left.from(i, 0), panel, k, i, 0, panel_width, StoreTile{c, panel_width, into});
    });
  }
}

namespace {
// Packs the rows.
struct Pack {
  float* panel;

  inline __attribute__((always_inline)) void row(std::int64_t l, const vec (&b)[panel_vectors]) {
    for (int v = 0; v < panel_vectors; ++v) store(panel + l * panel_width + v * lanes, b[v]);
  }
  void end() {}
};
// Also sums their columns.
struct PackAndSum {
  float *panel, *column_sums;
  vec totals[panel_vectors] = {};

  inline __attribute__((always_inline)) void row(std::int64_t l, const vec (&b)[panel_vectors]) {
    Pack{panel}.row(l, b);
    for (int v = 0; v < panel_vectors; ++v) totals[v] += b[v];
  }
  void end() {
    for (int v = 0; v < panel_vectors; ++v)
      store(column_sums + v * lanes, load(column_sums + v * lanes) + totals[v]);
  }
};

// Also prefetches a line at each step.
template <class Also>
struct Fetch {
  const char* line;
  std::int64_t apart;
  Also also;

  inline __attribute__((always_inline)) void row(std::int64_t l, const vec (&b)[panel_vectors]) {
    __builtin_prefetch(line, 0, 2);  // into the L2 cache
    line += apart;
    also.row(l, b);
  }
  void end() { also.end(); }
};

// The rows of C, starting at i, that belong to one tile.
template <class T, class Also>
void multiply_rows(const Left& left, const T* b, std::int64_t ldb, std::int64_t m, std::int64_t k, float* c,
                   std::int64_t i, Into into, const Ahead& ahead, Also also) {
  const std::int64_t line = i / tile_rows;  // each tile prefetches another line of the rows
  for_rows(m - i, [&]<int Rows>() {
    Tile<Rows> tile = {};
    fetch_to_write<Rows>(c + i * panel_width, panel_width);
    const Left rows = left.from(i, 0);
    if (line < ahead.lines) {
      multiply_tile(rows, b, ldb, k, tile, Fetch<Also>{ahead.at + line * 64, ahead.apart, also});
    } else {
      multiply_tile(rows, b, ldb, k, tile, also);
    }
    StoreTile{c, panel_width, into}(tile, i, 0, panel_width);
  });
}
}  // namespace

template <class T>
void pack_and_multiply_panel(const Left& left, const T* b, std::int64_t ldb, std::int64_t n, float* panel,
                             std::int64_t m, std::int64_t k, float* c, Into into, float* column_sums,
                             const Ahead& ahead) {
  if (n < panel_width) {
    pack_panel(b, ldb, k, n, panel);
    return pack_and_multiply_panel<float>(left, panel, panel_width, panel_width, panel, m, k, c, into,
                                          column_sums, ahead);
  }
  if (m == 0 && column_sums != nullptr) {  // no product computes them
    PackAndSum sum{panel, column_sums};
    for (std::int64_t l = 0; l < k; ++l) {
      const vec row[] = {load(b + l * ldb), load(b + l * ldb + lanes)};
      sum.row(l, row);
    }
    sum.end();
  } else if (column_sums == nullptr) {
    multiply_rows(left, b, ldb, m, k, c, 0, into, ahead, Pack{panel});
  } else {
    multiply_rows(left, b, ldb, m, k, c, 0, into, ahead, PackAndSum{panel, column_sums});
  }
  for (std::int64_t i = tile_rows; i < m; i += tile_rows)
    multiply_rows(left, panel, panel_width, m, k, c, i, into, ahead, Nothing{});
}

template void pack_and_multiply_panel<float>(const Left&, const float*, std::int64_t, std::int64_t, float*,
                                             std::int64_t, std::int64_t, float*, Into, float*, const Ahead&);
template void pack_and_multiply_panel<bfloat16>(const Left&, const bfloat16*, std::int64_t, std::int64_t,
                                                float*, std::int64_t, std::int64_t, float*, Into, float*,
                                                const Ahead&);

namespace {
// C = A B or C += A B for an A whose rows are contiguous in memory, outside the caches: tile by tile of A's
// rows. Meanwhile it prefetches the next rows, at each step as many bytes as a column of them has.
void multiply_long_rows(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                        const StoreTile& c) {
  for (std::int64_t i = 0; i < m; i += tile_rows) {
    const Left rows = left.from(i, 0);
    const auto* next = reinterpret_cast<const char*>(rows.a + tile_rows * k);
    for (std::int64_t j = 0; j < n; j += panel_width) {
      const float* panel = panels + j * k;
      for_rows(m - i, [&]<int Rows>() {
        Tile<Rows> tile = {};
        if (j == 0 && i + tile_rows < m) {
          multiply_tile(rows, panel, panel_width, k, tile,
                        Fetch<Nothing>{next, tile_rows * sizeof(float), {}});
        } else {
          multiply_tile(rows, panel, k, tile);
        }
        c(tile, i, j, std::min<std::int64_t>(panel_width, n - j));
      });
    }
  }
}
}  // namespace

void multiply_into(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                   const StoreTile& c) {
  constexpr std::int64_t depth = 256;  // of B's panel that stays in the L1 cache
  if (k <= depth) return multiply(left, panels, m, n, k, c);
  if (left.step == 1 && left.row == k) return multiply_long_rows(left, panels, m, n, k, c);
  for (std::int64_t l = 0; l < k; l += depth) {
    StoreTile part = c;
    if (l > 0) part.into = Into::add;
    for (std::int64_t j = 0; j < n; j += panel_width) {
      const float* panel = panels + j * k + l * panel_width;
      const std::int64_t columns = std::min<std::int64_t>(panel_width, n - j);
      const std::int64_t steps = std::min(depth, k - l);
      const Left from = left.from(0, l);
      for (std::int64_t i = 0; i < m; i += tile_rows) any_tile(m, from, panel, steps, i, j, columns, part);
    }
  }
}

COMERA_CPU_END
