#pragma once

#include <algorithm>

#include "kernels/core/tensors/tensor.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"

// Shared by the passes of tensor-train layers.
COMERA_CPU_BEGIN

// Tokens are divided into fixed groups, each with separate sums of weight gradients, which are added in order
// at the end. A group is processed in blocks of rows, and the wide tensors of a block in chunks of columns,
// so that a chunk is used several times while it is in the L2 cache.
inline constexpr std::int64_t group_rows_least = 128;
inline constexpr std::int64_t groups_most = 16;
inline constexpr std::int64_t block_rows = 132;  // a multiple of the tile
inline constexpr std::int64_t chunk_columns = 256;
// The stride of a chunk's panels is a cache line more than a power of two, to avoid sharing cache sets.
inline constexpr std::int64_t panel_apart = block_rows * panel_width + 16;

inline std::int64_t group_count(std::int64_t tokens) {
  return std::clamp<std::int64_t>(tokens / group_rows_least, 1, groups_most);
}

// C (+)= chunk B over the columns of a chunk, whose panels have stride panel_apart. b: these rows of B
// packed, in panels of `depth` rows.
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

inline void multiply_chunk(const float* chunk, const float* b, std::int64_t depth, std::int64_t rows,
                           std::int64_t columns, std::int64_t n, const StoreTile& to) {
  for (std::int64_t j = 0; j < n; j += panel_width, b += depth * panel_width) {
    for (std::int64_t i = 0; i < rows; i += tile_rows) {
      for_rows(rows - i,
               [&]<int Rows>() { chunk_tile<Rows>(chunk + i * panel_width, b, columns, i, j, n, to); });
    }
  }
}

// dx = dxa Aᵀ for a block, or dx +=. a: Aᵀ packed.
template <class T>
inline void input_gradient(const float* dxa, std::int64_t rank, const float* a, T* dx, std::int64_t rows,
                           std::int64_t inputs, bool accumulate) {
  multiply_by_rows({dxa, rank}, a, rows, inputs, rank,
                   StoreTileAs<T>{dx, inputs, accumulate ? Into::add : Into::set});
}

// Sums of a weight's gradient or of its transpose, ranks x columns, panel by panel:
// [panel][ranks][panel_width]. With rows as long as the weight's, the rows of a panel would share sets of the
// L1 cache and, in wide layers, lie on separate pages.
struct WeightSums {
  float* at = nullptr;
  std::int64_t ranks = 0;

  WeightSums() = default;
  WeightSums(std::int64_t rank, std::int64_t columns, Scratch& scratch)
      : at(scratch.floats(panels_size(rank, columns))), ranks(rank) {}
  // The panel that begins at this column.
  float* panel(std::int64_t column) const { return at + column * ranks; }
};

// The sums (+)= left right; left: a transpose, right: `rows` rows in memory. panel: memory for one panel of
// right.
template <class T>
inline void weight_gradient(const Left& left, const T* right, std::int64_t ld, std::int64_t rows,
                            std::int64_t columns, const WeightSums& sums, Into into, float* panel) {
  for (std::int64_t j = 0; j < columns; j += panel_width) {
    const std::int64_t left_over = columns - j;
    pack_and_multiply_panel(left, right + j, ld, std::min<std::int64_t>(panel_width, left_over), panel,
                            sums.ranks, rows, sums.panel(j), into, nullptr,
                            left_over > panel_width ? Ahead(right + j + panel_width, ld) : Ahead());
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

// to += the sums of all groups, from(g).
template <class From>
void add_weight_sums(const Tensor& to, std::int64_t groups, int threads, const From& from) {
  const std::int64_t ranks = to.dim(0), columns = to.dim(1);
  parallel_pieces(panels_of(columns), threads, [&](std::int64_t p, int) {
    const std::int64_t begin = p * panel_width, count = std::min<std::int64_t>(panel_width, columns - begin);
    for (std::int64_t r = 0; r < ranks; ++r) {
      add_pieces_of_groups(to.data<float>() + r * columns + begin, count, groups,
                           [&](std::int64_t g) { return from(g).panel(begin) + r * panel_width; });
    }
  });
}

// The same for sums of the transpose.
template <class From>
void add_weight_sums_transposed(const Tensor& to, std::int64_t groups, int threads, const From& from) {
  const std::int64_t ranks = to.dim(1), columns = to.dim(0);
  parallel_pieces(panels_of(columns), threads, [&](std::int64_t p, int) {
    const std::int64_t begin = p * panel_width, count = std::min<std::int64_t>(panel_width, columns - begin);
    float* row = to.data<float>() + begin * ranks;
    for (std::int64_t r = 0; r < ranks; ++r) {
      float total[panel_width] = {};
      add_pieces_of_groups(total, count, groups,
                           [&](std::int64_t g) { return from(g).panel(begin) + r * panel_width; });
      for (std::int64_t n = 0; n < count; ++n) row[n * ranks + r] += total[n];
    }
  });
}

COMERA_CPU_END
