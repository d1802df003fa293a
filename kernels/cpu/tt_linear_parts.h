#pragma once

#include <algorithm>

#include "kernels/core/tensor.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"

// What the passes of tensor-train linears share.
COMERA_CPU_BEGIN

// Tokens fall into fixed groups, each with its own sums of weights' gradients, which are added in order at
// the end; a group is worked through in blocks of rows, and wide tensors of a block in chunks of columns, so
// that a chunk is used several times while it is in the second cache.
inline constexpr std::int64_t group_rows_least = 128;
inline constexpr std::int64_t groups_most = 16;
inline constexpr std::int64_t block_rows = 132;  // of whole tiles
inline constexpr std::int64_t chunk_columns = 256;
// Panels of a chunk lie a cache line more than a power of two apart: they would share cache sets.
inline constexpr std::int64_t panel_apart = block_rows * panel_width + 16;

inline std::int64_t group_count(std::int64_t tokens) {
  return std::clamp<std::int64_t>(tokens / group_rows_least, 1, groups_most);
}

// C (+)= chunk B over the columns of a chunk, which lies in panels panel_apart apart. b: these rows of B
// packed, its panels `depth` rows long.
template <int Rows>
inline void chunk_tile(const float* chunk, const float* b, std::int64_t columns, std::int64_t i,
                       std::int64_t j, std::int64_t n, const StoreTile& to) {
  Tile<Rows> tile = {};
  for (std::int64_t c = 0; c < columns;
       c += panel_width, chunk += panel_apart, b += panel_width * panel_width) {
    multiply_tile<Rows>({chunk, panel_width, 1}, b, std::min<std::int64_t>(panel_width, columns - c), tile);
  }
  to(tile, i, j, n - j);
}

template <int Rows>
inline void chunk_rest(std::int64_t rows, const float* chunk, const float* b, std::int64_t columns,
                       std::int64_t i, std::int64_t j, std::int64_t n, const StoreTile& to) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return chunk_tile<Rows>(chunk, b, columns, i, j, n, to);
    chunk_rest<Rows - 1>(rows, chunk, b, columns, i, j, n, to);
  }
}

inline void multiply_chunk(const float* chunk, const float* b, std::int64_t depth, std::int64_t rows,
                           std::int64_t columns, std::int64_t n, const StoreTile& to) {
  for (std::int64_t j = 0; j < n; j += panel_width, b += depth * panel_width) {
    std::int64_t i = 0;
    for (; i + tile_rows <= rows; i += tile_rows) {
      chunk_tile<tile_rows>(chunk + i * panel_width, b, columns, i, j, n, to);
    }
    if (i < rows) chunk_rest<tile_rows - 1>(rows - i, chunk + i * panel_width, b, columns, i, j, n, to);
  }
}

// dx = dxa Aᵀ of a block, or dx +=. a: Aᵀ packed.
template <class T>
inline void input_gradient(const float* dxa, std::int64_t rank, const float* a, T* dx, std::int64_t rows,
                           std::int64_t inputs, bool accumulate) {
  multiply_by_rows({dxa, rank}, a, rows, inputs, rank,
                   StoreTileAs<T>{dx, inputs, accumulate ? Into::add : Into::set});
}

// dAᵀ (+)= dxaᵀ x of a block. panel: room for a panel of x.
template <class T>
inline void transposed_weight_gradient(const float* dxa, std::int64_t rank, const T* x, std::int64_t rows,
                                       std::int64_t inputs, float* da, Into into, float* panel) {
  for (std::int64_t j = 0; j < inputs; j += panel_width) {
    const std::int64_t columns = std::min<std::int64_t>(panel_width, inputs - j);
    pack_panel(x + j, inputs, rows, columns, panel);
    multiply_into({dxa, 1, rank}, panel, rank, columns, rows, {da + j, inputs, into});
  }
}

// to[i] += from[0][i] + from[1][i] + ..., in that order.
template <class From>
void add_pieces_of_groups(float* to, std::int64_t count, std::int64_t groups, const From& from) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    vec total = load(from(0) + i);
    for (std::int64_t g = 1; g < groups; ++g) total += load(from(g) + i);
    store(to + i, load(to + i) + total);
  }
  for (; i < count; ++i) {
    float total = from(0)[i];
    for (std::int64_t g = 1; g < groups; ++g) total += from(g)[i];
    to[i] += total;
  }
}

// to += the sums of all groups.
template <class From>
void add_groups(const Tensor& to, std::int64_t groups, int threads, const From& from) {
  constexpr std::int64_t piece = 4096;
  const std::int64_t elements = to.elements();
  parallel_pieces((elements + piece - 1) / piece, threads, [&](std::int64_t p, int) {
    add_pieces_of_groups(to.data<float>() + p * piece, std::min(piece, elements - p * piece), groups,
                         [&](std::int64_t g) { return from(g) + p * piece; });
  });
}

// The same for a matrix whose sums are transposed, with rows `ld` apart (0: adjacent).
template <class From>
void add_groups_transposed(const Tensor& to, std::int64_t groups, int threads, const From& from,
                           std::int64_t ld = 0) {
  constexpr std::int64_t columns = 64;
  const std::int64_t inputs = to.dim(0), rank = to.dim(1);
  if (ld == 0) ld = inputs;
  parallel_pieces((inputs + columns - 1) / columns, threads, [&](std::int64_t p, int) {
    const std::int64_t begin = p * columns, count = std::min(columns, inputs - begin);
    float* row = to.data<float>() + begin * rank;
    for (std::int64_t r = 0; r < rank; ++r) {
      float total[columns] = {};
      add_pieces_of_groups(total, count, groups, [&](std::int64_t g) { return from(g) + r * ld + begin; });
      for (std::int64_t n = 0; n < count; ++n) row[n * rank + r] += total[n];
    }
  });
}

COMERA_CPU_END
