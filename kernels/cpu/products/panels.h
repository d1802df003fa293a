#pragma once

#include <algorithm>

#include "kernels/cpu/simd.h"

// Small products of cache-resident blocks, for blocked kernels.
//
// B (k x n) is packed into panels of `panel_width` columns: [ceil(n / panel_width)][k][panel_width], zeros
// beyond n. A and C stay in place.
COMERA_CPU_BEGIN

inline constexpr int panel_vectors = 2;
inline constexpr int panel_width = panel_vectors * lanes;
#ifdef __AVX512F__
inline constexpr int tile_rows = 12;  // the tile of C takes 24 of 32 registers
#else
inline constexpr int tile_rows = 6;  // 12 of 16
#endif

inline std::int64_t panels_of(std::int64_t n) { return (n + panel_width - 1) / panel_width; }
inline std::int64_t panels_size(std::int64_t k, std::int64_t n) { return panels_of(n) * panel_width * k; }

// to[j][i] = from[i][j], i < rows, j < columns
inline void transpose(const float* from, std::int64_t from_apart, std::int64_t rows, std::int64_t columns,
                      float* to, std::int64_t to_apart) {
  constexpr std::int64_t block = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += block) {
    const std::int64_t i1 = std::min(rows, i0 + block);
    for (std::int64_t j0 = 0; j0 < columns; j0 += block) {
      const std::int64_t j1 = std::min(columns, j0 + block);
      for (std::int64_t j = j0; j < j1; ++j) {
        for (std::int64_t i = i0; i < i1; ++i) to[j * to_apart + i] = from[i * from_apart + j];
      }
    }
  }
}

// One panel of B as stored: columns [0, n), n <= panel_width.
template <class T>
inline void pack_panel(const T* b, std::int64_t ldb, std::int64_t k, std::int64_t n, float* panel) {
  if (n == panel_width) {
    for (std::int64_t i = 0; i < k; ++i) {
      for (int v = 0; v < panel_vectors; ++v) {
        store(panel + i * panel_width + v * lanes, load(b + i * ldb + v * lanes));
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < k; ++i) {
    for (int v = 0; v < panel_vectors; ++v) {
      const std::int64_t left = std::clamp<std::int64_t>(n - v * lanes, 0, lanes);
      store(panel + i * panel_width + v * lanes,
            left > 0 ? load_first(b + i * ldb + v * lanes, left) : splat(0));
    }
  }
}
template <class T>
inline void pack(const T* b, std::int64_t ldb, std::int64_t k, std::int64_t n, float* panels) {
  for (std::int64_t j = 0; j < n; j += panel_width, panels += k * panel_width) {
    pack_panel(b + j, ldb, k, std::min<std::int64_t>(panel_width, n - j), panels);
  }
}

// The same for a B that is stored transposed, n x k.
template <class T>
void pack_transposed(const T* b, std::int64_t ldb, std::int64_t k, std::int64_t n, float* panels);

// Element (i, l) of A, i < m, l < k, is a[i * row + l * step].
struct Left {
  const float* a = nullptr;
  std::int64_t row = 0, step = 1;

  Left from(std::int64_t i, std::int64_t l) const { return {a + i * row + l * step, row, step}; }
};

// Prefetches the lines of the next tile of C: C is in no cache, and stores that wait for their lines delay
// the following products. Prefetching beyond C is harmless.
template <int Rows, class T>
inline __attribute__((always_inline)) void fetch_to_write(const T* c, std::int64_t ldc) {
  constexpr int line = 64 / sizeof(T);
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panel_width; j += line) __builtin_prefetch(c + r * ldc + j, 1);
  }
}

// The accumulators of one tile of C.
template <int Rows>
struct Tile {
  vec at[Rows][panel_vectors];
};

// Memory that a product prefetches while it multiplies, a line at each step: the rows of the next panel to
// pack. They are in no cache, and too far apart for the hardware prefetcher.
struct Ahead {
  const char* at = nullptr;  // or null
  std::int64_t apart = 0;    // row stride in bytes
  int lines = 0;             // per row

  Ahead() = default;
  template <class T>
  Ahead(const T* row, std::int64_t ld)
      : at(reinterpret_cast<const char*>(row)),
        apart(ld * static_cast<std::int64_t>(sizeof(T))),
        lines(panel_width * static_cast<int>(sizeof(T)) / 64) {}
};

// A no-op in place of the additional work for each row of B and at the end.
struct Nothing {
  void row(std::int64_t, const vec (&)[panel_vectors]) {}
  void end() {}
};

// A tile of A B, where B has row stride `ldb`.
template <int Rows, class T, class Also>
inline __attribute__((always_inline)) void multiply_tile(const Left& left, const T* b, std::int64_t ldb,
                                                         std::int64_t k, Tile<Rows>& tile, Also also) {
  const float* a = left.a;
  const std::int64_t apart = left.row;
  for (std::int64_t l = 0; l < k; ++l) {
    vec row[panel_vectors];
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) row[v] = load(b + v * lanes);
    also.row(l, row);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const vec x = splat(a[r * apart]);
#pragma GCC unroll 2
      for (int v = 0; v < panel_vectors; ++v) tile.at[r][v] += x * row[v];
    }
    a += left.step;
    b += ldb;
  }
  also.end();
}
template <int Rows>
inline __attribute__((always_inline)) void multiply_tile(const Left& left, const float* panel, std::int64_t k,
                                                         Tile<Rows>& tile) {
  multiply_tile(left, panel, panel_width, k, tile, Nothing{});
}

enum class Into { set, add };

// Stores a finished tile.
template <class T>
struct StoreTileAs {
  T* c;
  std::int64_t ldc;
  Into into;
  float scale = 1;

  template <int Rows>
  inline __attribute__((always_inline)) void fetch(std::int64_t i, std::int64_t j) const {
    fetch_to_write<Rows>(c + i * ldc + j, ldc);
  }
  template <int Rows>
  inline __attribute__((always_inline)) void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j,
                                                        std::int64_t columns) const {
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) {
      const std::int64_t left = columns - v * lanes;
      T* to = c + i * ldc + j + v * lanes;
      if (left >= lanes) {
        store_column(tile, v, to, WholeVector{});
      } else if (left > 0) {
        store_column(tile, v, to, PartOfVector{left});
      }
    }
  }

 private:
  template <int Rows, class At>
  inline __attribute__((always_inline)) void store_column(const Tile<Rows>& tile, int v, T* to, At at) const {
    if (into == Into::add) {
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) at.store(to + r * ldc, tile.at[r][v] * scale + at.load(to + r * ldc));
    } else {
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) at.store(to + r * ldc, tile.at[r][v] * scale);
    }
  }
};

using StoreTile = StoreTileAs<float>;

template <int Rows, class Finish>
inline void one_tile(const Left& left, const float* panel, std::int64_t k, std::int64_t i, std::int64_t j,
                     std::int64_t columns, const Finish& finish) {
  Tile<Rows> tile = {};
  multiply_tile(left, panel, k, tile);
  finish(tile, i, j, columns);
}

// body<Rows>() for the rows of a tile; the last tile of C may have fewer.
template <int Rows = tile_rows, class Body>
inline void for_rows(std::int64_t rows, const Body& body) {
  if constexpr (Rows > 0) {
    if (rows >= Rows) return body.template operator()<Rows>();
    for_rows<Rows - 1>(rows, body);
  }
}

template <class Finish>
inline void any_tile(std::int64_t m, const Left& left, const float* panel, std::int64_t k, std::int64_t i,
                     std::int64_t j, std::int64_t columns, const Finish& finish) {
  for_rows(m - i, [&]<int Rows>() { one_tile<Rows>(left.from(i, 0), panel, k, i, j, columns, finish); });
}

// finish(tile, i, j, columns) for every tile of A B, along columns of C: each panel stays in the L1 cache.
template <class Finish>
inline void multiply(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                     const Finish& finish) {
  for (std::int64_t j = 0; j < n; j += panel_width, panels += k * panel_width) {
    const std::int64_t columns = std::min<std::int64_t>(panel_width, n - j);
    for (std::int64_t i = 0; i < m; i += tile_rows) any_tile(m, left, panels, k, i, j, columns, finish);
  }
}

// Prefetches the next tile along rows of C before finishing one.
template <class Finish>
struct FetchNext {
  const Finish& finish;
  std::int64_t n;

  template <int Rows>
  inline __attribute__((always_inline)) void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j,
                                                        std::int64_t columns) const {
    const bool ends = j + panel_width >= n;
    finish.template fetch<Rows>(ends ? i + Rows : i, ends ? 0 : j + panel_width);
    finish(tile, i, j, columns);
  }
};

// The same along rows of C, for results that go to memory: whole rows are written consecutively.
template <class Finish>
inline void multiply_by_rows(const Left& left, const float* panels, std::int64_t m, std::int64_t n,
                             std::int64_t k, const Finish& finish) {
  for (std::int64_t i = 0; i < m; i += tile_rows) {
    const float* panel = panels;
    for (std::int64_t j = 0; j < n; j += panel_width, panel += k * panel_width) {
      any_tile(m, left, panel, k, i, j, std::min<std::int64_t>(panel_width, n - j),
               FetchNext<Finish>{finish, n});
    }
  }
}

// C (+)= A B for one panel of B, where C has row stride panel_width; compiled once.
void multiply_panel(const Left& left, const float* panel, std::int64_t m, std::int64_t k, float* c,
                    Into into);

// The same for columns [0, n) of a B in memory, n <= panel_width. The product of the first tile also packs
// them into `panel`, since it is bound by multiplications. Meanwhile it prefetches `ahead`, and adds the
// column sums to `column_sums`, which has a whole panel's width, or is nullptr.
template <class T>
void pack_and_multiply_panel(const Left& left, const T* b, std::int64_t ldb, std::int64_t n, float* panel,
                             std::int64_t m, std::int64_t k, float* c, Into into, float* column_sums,
                             const Ahead& ahead);

// C = scale A B or C += scale A B, compiled once.
void multiply_into(const Left& left, const float* panels, std::int64_t m, std::int64_t n, std::int64_t k,
                   const StoreTile& c);

COMERA_CPU_END
