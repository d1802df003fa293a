#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

// Blocks of 32 x 32 float32 sums of bfloat16 products, with operands in rows of 32 elements: by AMX (variant
// `amx`), or by dot products of pairs in vectors (AVX-512 BF16, variant `bf16`). Both take the same operand
// layout.
COMERA_CPU_BEGIN

// Rows and columns of C that are summed at once, and elements of k per step.
inline constexpr std::int64_t bf16_block = 32;

inline std::int64_t whole_blocks(std::int64_t count) {
  return (count + bf16_block - 1) / bf16_block * bf16_block;
}

// Pairs of elements in the last step of k.
inline std::int64_t last_pairs(std::int64_t k) { return ((k - 1) % bf16_block + 2) / 2; }

// Rows of A: `whole` steps in place, and one more that is padded with zeros, or none.
struct Bf16Rows {
  const bfloat16* a;
  std::int64_t ld;
  std::int64_t whole;
  const bfloat16* rest = nullptr;       // (32, 32)
  std::int64_t pairs = bf16_block / 2;  // in the last step, of k; those behind them are not needed
  std::int64_t rows = bf16_block;       // whose sums are needed
};

#ifdef __AMX_BF16__

// While it exists, this thread's tiles are configured: all with 16 rows of 64 bytes.
class Bf16Tiles {
 public:
  Bf16Tiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    static_assert(sizeof shape == 64);
    asm volatile("" : : "r"(&shape) : "memory");  // GCC assumes that only 8 bytes of it are read
    _tile_loadconfig(&shape);
  }
  ~Bf16Tiles() { _tile_release(); }
  Bf16Tiles(const Bf16Tiles&) = delete;
  Bf16Tiles& operator=(const Bf16Tiles&) = delete;
};

inline __attribute__((always_inline)) void bf16_step(const bfloat16* a, std::int64_t ld, const bfloat16* b) {
  const std::int64_t bytes = ld * 2;
  _tile_loadd(4, a, bytes);
  _tile_loadd(5, a + 16 * ld, bytes);
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + 512, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// A block of sums with row stride `ld` = A B or += A B for a panel of B: for each 32 of k, two tiles of 16
// pairs of rows x 16 columns. All is computed, needed or not.
inline void bf16_multiply(const Bf16Rows& rows, const bfloat16* panel, float* sums, std::int64_t ld, bool add,
                          std::int64_t /*columns*/ = bf16_block) {
  const std::int64_t bytes = ld * 4;
  asm volatile("" ::: "memory");  // GCC does not know that the tile loads read what was just stored
  if (add) {
    _tile_loadd(0, sums, bytes);
    _tile_loadd(1, sums + 16, bytes);
    _tile_loadd(2, sums + 16 * ld, bytes);
    _tile_loadd(3, sums + 16 * ld + 16, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t step = 0; step < rows.whole; ++step, panel += bf16_block * bf16_block)
    bf16_step(rows.a + step * bf16_block, rows.ld, panel);
  if (rows.rest != nullptr) bf16_step(rows.rest, bf16_block, panel);
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + 16, bytes);
  _tile_stored(2, sums + 16 * ld, bytes);
  _tile_stored(3, sums + 16 * ld + 16, bytes);
}

#else

// Vectors need no configuration.
struct Bf16Tiles {
  Bf16Tiles() {}
};

// Rows whose sums are in registers at a time: 16 vectors of sums hide an instruction's latency.
template <int Halves>
inline constexpr int bf16_rows_at_once = 16 / Halves;

// `pairs` pairs of k of 16 Halves columns.
template <int Halves>
inline __attribute__((always_inline)) void bf16_pairs(const bfloat16* a, std::int64_t ld, const bfloat16* b,
                                                      int pairs,
                                                      __m512 (&sums)[bf16_rows_at_once<Halves>][Halves]) {
#pragma GCC unroll 4
  for (int pair = 0; pair < pairs; ++pair) {
    __m512bh columns[Halves];
#pragma GCC unroll 2
    for (int half = 0; half < Halves; ++half)
      columns[half] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 512 * half + 32 * pair));
#pragma GCC unroll 16
    for (int r = 0; r < bf16_rows_at_once<Halves>; ++r) {
      std::int32_t two;
      std::memcpy(&two, a + r * ld + 2 * pair, sizeof two);
      const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
#pragma GCC unroll 2
      for (int half = 0; half < Halves; ++half)
        sums[r][half] = _mm512_dpbf16_ps(sums[r][half], both, columns[half]);
    }
  }
}

template <int Halves>
inline void bf16_multiply_columns(const Bf16Rows& rows, const bfloat16* panel, float* sums, std::int64_t ld,
                                  bool add) {
  constexpr int together = bf16_rows_at_once<Halves>, all = bf16_block / 2;
  const auto last = static_cast<int>(rows.pairs);
  // With a step of its own behind them, or if all of the last one is needed, no step in place is cut.
  const std::int64_t uncut = rows.rest != nullptr || last == all ? rows.whole : rows.whole - 1;
  for (std::int64_t first = 0; first < rows.rows; first += together, sums += together * ld) {
    __m512 own[together][Halves];
#pragma GCC unroll 16
    for (int r = 0; r < together; ++r)
#pragma GCC unroll 2
      for (int half = 0; half < Halves; ++half)
        own[r][half] = add ? _mm512_loadu_ps(sums + r * ld + 16 * half) : _mm512_setzero_ps();
    const bfloat16 *a = rows.a + first * rows.ld, *b = panel;
    for (std::int64_t step = 0; step < uncut; ++step, a += bf16_block, b += bf16_block * bf16_block)
      bf16_pairs<Halves>(a, rows.ld, b, all, own);
    if (rows.rest != nullptr)
      bf16_pairs<Halves>(rows.rest + first * bf16_block, bf16_block, b, last, own);
    else if (uncut < rows.whole)
      bf16_pairs<Halves>(a, rows.ld, b, last, own);
#pragma GCC unroll 16
    for (int r = 0; r < together; ++r)
#pragma GCC unroll 2
      for (int half = 0; half < Halves; ++half) _mm512_storeu_ps(sums + r * ld + 16 * half, own[r][half]);
  }
}

// A block of sums with row stride `ld` = A B or += A B for a panel of B: for each 32 of k, twice 16 pairs of
// rows x 16 columns. Sums of rows and columns that are not needed may stay as they are.
inline void bf16_multiply(const Bf16Rows& rows, const bfloat16* panel, float* sums, std::int64_t ld, bool add,
                          std::int64_t columns = bf16_block) {
  if (columns > 16)
    bf16_multiply_columns<2>(rows, panel, sums, ld, add);
  else
    bf16_multiply_columns<1>(rows, panel, sums, ld, add);
}

#endif

inline __mmask16 pairs_mask(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : count <= 0 ? 0u : (1u << count) - 1u);
}
inline __mmask32 columns_mask(std::int64_t count) {
  return count >= 32 ? 0xffffffffu : count <= 0 ? 0u : (1u << count) - 1u;
}
// The permutation indices that take 16 columns, starting at `first`, of two rows of 32 elements in pairs.
constexpr std::array<std::uint16_t, 32> paired_columns(int first) {
  std::array<std::uint16_t, 32> places{};
  for (int j = 0; j < 16; ++j) {
    places[2 * j] = static_cast<std::uint16_t>(first + j);
    places[2 * j + 1] = static_cast<std::uint16_t>(32 + first + j);
  }
  return places;
}
// The first `count` of 16 elements of two rows as 16 pairs; `second` may be missing.
inline __m512i pairs_of(const bfloat16* first, const bfloat16* second, std::int64_t count) {
  const __mmask16 mask = pairs_mask(count);
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, first));
  if (second == nullptr) return low;
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, second));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// 16 x 16 pairs.
inline void transpose_pairs(__m512i* r) {
  __m512i t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    u[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    u[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    u[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    u[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int j = 0; j < 4; ++j) {  // quarter q of u[4 i + j] holds column 4 q + j of rows 4 i to 4 i + 3
    const __m512i even_low = _mm512_shuffle_i32x4(u[j], u[4 + j], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(u[j], u[4 + j], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0x88);
    const __m512i odd_high = _mm512_shuffle_i32x4(u[8 + j], u[12 + j], 0xdd);
    r[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    r[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    r[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

// 16 x 16 pairs of x, zero beyond its rows and columns: of two rows each (rows_paired: pair (p, j) is x[2
// p][j], x[2 p + 1][j]; at most 32 rows and 16 columns), or of two columns each (x[p][2 j], x[p][2 j + 1]; at
// most 16 rows and 32 columns).
inline void load_paired_rows(const bfloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                             __m512i* pairs) {
  for (int p = 0; p < 16; ++p) {
    const bfloat16* first = x + 2 * p * ld;
    pairs[p] = 2 * p >= rows ? _mm512_setzero_si512()
                             : pairs_of(first, 2 * p + 1 < rows ? first + ld : nullptr, columns);
  }
}
inline void load_paired_columns(const bfloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                                __m512i* pairs) {
  const __mmask32 mask = columns_mask(columns);
  for (int p = 0; p < 16; ++p)
    pairs[p] = p < rows ? _mm512_maskz_loadu_epi16(mask, x + p * ld) : _mm512_setzero_si512();
}
inline void store_pairs(const __m512i* pairs, bfloat16* to, std::int64_t ld) {
  for (int p = 0; p < 16; ++p) _mm512_storeu_si512(to + p * ld, pairs[p]);
}

// 32 rows and 32 columns of a stored panel of B, zero beyond its rows and columns: twice 16 pairs of rows x
// 16 columns.
inline void pack_step_of_rows(const bfloat16* b, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                              bfloat16* panel) {
  alignas(64) static constexpr std::array<std::uint16_t, 32> left = paired_columns(0),
                                                             right = paired_columns(16);
  const __m512i of_left = _mm512_load_si512(left.data()), of_right = _mm512_load_si512(right.data());
  const __mmask32 mask = columns_mask(columns);
  const auto row = [&](std::int64_t r) {
    return r < rows ? _mm512_maskz_loadu_epi16(mask, b + r * ld) : _mm512_setzero_si512();
  };
  for (int p = 0; p < 16; ++p) {
    const __m512i first = row(2 * p), second = row(2 * p + 1);
    _mm512_storeu_si512(panel + 32 * p, _mm512_permutex2var_epi16(first, of_left, second));
    _mm512_storeu_si512(panel + 512 + 32 * p, _mm512_permutex2var_epi16(first, of_right, second));
  }
}

// A panel of op(B): columns [0, n), n <= 32, of k rows, padded with zeros. b: its first column; stored k x n,
// or n x k if transposed.
inline void bf16_pack_panel(const bfloat16* b, std::int64_t ld, bool transposed, std::int64_t k,
                            std::int64_t n, bfloat16* panel) {
  __m512i pairs[16];
  for (std::int64_t l = 0; l < k; l += bf16_block, panel += bf16_block * bf16_block) {
    if (!transposed) {
      pack_step_of_rows(b + l * ld, ld, k - l, n, panel);
      continue;
    }
    for (std::int64_t j = 0; j < bf16_block; j += 16) {
      load_paired_columns(b + j * ld + l, ld, n - j, k - l, pairs);
      transpose_pairs(pairs);
      store_pairs(pairs, panel + j * bf16_block, bf16_block);
    }
  }
}

// Rows [0, m), m <= 32, of op(A) as 32 rows with stride `width`, padded with zeros to whole steps; a: its
// first row, stored m x k, or k x m if transposed.
inline void bf16_pack_rows(const bfloat16* a, std::int64_t ld, bool transposed, std::int64_t m,
                           std::int64_t k, bfloat16* rows, std::int64_t width) {
  __m512i pairs[16];
  for (std::int64_t l = 0; l < k; l += bf16_block) {
    for (std::int64_t i = 0; i < bf16_block; i += 16) {
      if (transposed) {
        load_paired_rows(a + l * ld + i, ld, k - l, m - i, pairs);
        transpose_pairs(pairs);
      } else {
        load_paired_columns(a + i * ld + l, ld, m - i, k - l, pairs);
      }
      store_pairs(pairs, rows + i * width + l, width);
    }
  }
}

// The first m of 32 rows of A, in place if possible; rest: memory for 32 rows of whole_blocks(k).
inline Bf16Rows bf16_rows(const bfloat16* a, std::int64_t ld, std::int64_t m, std::int64_t k,
                          bfloat16* rest) {
  const std::int64_t whole = k / bf16_block, left = k - whole * bf16_block;
  if (m < bf16_block) {
    bf16_pack_rows(a, ld, false, m, k, rest, whole_blocks(k));
    return {rest, whole_blocks(k), whole_blocks(k) / bf16_block, nullptr, last_pairs(k)};
  }
  if (left == 0) return {a, ld, whole};
  bf16_pack_rows(a + whole * bf16_block, ld, false, m, left, rest, bf16_block);
  return {a, ld, whole, rest, last_pairs(k)};
}

inline void bf16_fetch_to_write(const bfloat16* c, std::int64_t ldc) {
  for (std::int64_t r = 0; r < bf16_block; ++r) __builtin_prefetch(c + r * ldc, 1);
}

// Stores rows [0, rows) and columns [0, columns), at most 32, of a block of sums.
template <class T>
inline void bf16_store(const float* sums, std::int64_t ld, std::int64_t rows, std::int64_t columns, T* c,
                       std::int64_t ldc, bool accumulate) {
  for (std::int64_t r = 0; r < rows; ++r, c += ldc, sums += ld) {
    for (std::int64_t v = 0; v < columns; v += lanes) {
      vec value = load(sums + v);
      if (columns - v >= lanes) {
        if (accumulate) value += load(c + v);
        store(c + v, value);
      } else {
        if (accumulate) value += load_first(c + v, columns - v);
        store_first(c + v, value, columns - v);
      }
    }
  }
}
// The same if C is in no cache: first prefetches the lines of the block to the right, since stores that wait
// for their lines delay what follows. Prefetching beyond C is harmless.
inline void bf16_store_far(const float* sums, std::int64_t rows, std::int64_t columns, bfloat16* c,
                           std::int64_t ldc, bool accumulate, std::int64_t ld = bf16_block) {
  bf16_fetch_to_write(c + bf16_block, ldc);
  bf16_store(sums, ld, rows, columns, c, ldc, accumulate);
}

COMERA_CPU_END
