#pragma once

#include <algorithm>

#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/products/copied_tiles.h"
#include "kernels/cuda/products/tensor_cores.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/tensor_trains/tt_inner.h"

// Shared by the kernels of the inner part of a feed-forward network of tensor trains (tt_inner.cu), in
// bfloat16.
namespace comera::COMERA_CUDA {

// ---- The activation. It takes most of the kernels' time.

struct Gelu {
  float value, slope;
};

// The normal distribution's tail beyond |u| is its density times a polynomial of 1 / (1 + 0.326 |u|), after
// Hastings (Abramowitz and Stegun, 7.1.25); in s = |u| sqrt(log2(e) / 2) the density is a power of two. The
// error is up to 6e-6 for values, for |u| < 3 a thirtieth of that of rounding to bfloat16, and up to 2e-5 for
// slopes.
__device__ __forceinline__ Gelu gelu(float u) {
  const float s = fabsf(u) * 0.84932180F;
  const float t = fast_reciprocal(1 + 0.38383567F * s);
  const float density = fast_exp2(-1.32574806F - s * s);
  float tail = 1.09764672F;
  tail = tail * t - 0.42021872F;
  tail = tail * t + 0.61839252F;
  tail = tail * t - 0.04245983F;
  const float below = 0.5F + copysignf(0.5F - density * tail, u);
  return {u * below, below + u * density};
}
// ---- Kernel arguments. Rows of all matrices begin at multiples of 16 bytes.

struct Inner {
  const bfloat16 *xa, *b_up, *a_down, *dha;
  const float* bias;
  int tokens, inner, rank_up, rank_down;
};

// Ranks are padded with zeros to D = 32, 64, 112 or 128. In shared memory they take the next power of two, so
// that threads share the copies evenly.
static_assert(most_inner_rank == 128);
template <int D>
constexpr int inner_width = D == 112 ? 128 : D;

// A of 16 rows and 16 columns; word(row, column) gives neighbours along the depth.
template <class Word>
__device__ __forceinline__ BF16::A fragment(const Word& word) {
  const int row = fragment_row(), column = fragment_column();
  return {{word(row, column), word(row + 8, column), word(row, column + 8), word(row + 8, column + 8)}};
}

// Sixteen rows of a matrix with the given even number of columns.
__device__ __forceinline__ BF16::A row_fragment(const bfloat16* from, int first_row, int rows,
                                                int first_column, int columns) {
  return fragment([&](int row, int column) {
    const bool real = first_row + row < rows && first_column + column < columns;
    return real ? *reinterpret_cast<const unsigned*>(from + std::int64_t{first_row + row} * columns +
                                                     first_column + column)
                : 0u;
  });
}
// ---- Launch configuration. These block counts fill the largest GPUs: with fewer tokens, columns are divided
// as well. The numbers, and thus the bits of the results, are the same on every GPU.

constexpr std::int64_t multiprocessors = 132;

// Sums over parts of the columns, whose totals become `to` (tokens, rank); none if one block has all columns.
struct RoundedSums {
  const float* partial;
  std::int64_t parts, count;
  bfloat16* to;

  template <int V>
  __device__ void run(std::int64_t i) const {
    store(to + i, sum_of_parts<V>(partial + i, parts, count));
  }
};
// Sums over parts of the tokens, to be added to gradients; within a part they are consecutive.
struct GradientSums {
  const float* partial;
  std::int64_t parts, of_a_down, of_b_up, count;
  float *da_down, *db_up, *dbias;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> sum = sum_of_parts<V>(partial + i, parts, count);
    float* to = da_down + i;
    if (i >= of_a_down) to = db_up + (i - of_a_down);
    if (i >= of_a_down + of_b_up) to = dbias + (i - of_a_down - of_b_up);
    const Values<V> before = load<V>(to);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += before.at[k];
    store(to, sum);
  }
};

// `widest` is the larger rank.
//
// Over tokens (tt_inner_rows.cu): ha from h, or dxa. `to` is (tokens, rank); the sums are returned.
std::size_t inner_rows_scratch(std::int64_t tokens, std::int64_t inner, std::int64_t rank,
                               std::int64_t widest);
RoundedSums inner_rows(const Inner& op, bool gradient, std::int64_t widest, bfloat16* to, float* scratch,
                       const Stream& stream);

// Over inner columns (tt_inner_columns.cu): the gradients of tensors with an entry per column.
std::size_t inner_columns_scratch(const TTInnerBackward& op, std::int64_t widest);
GradientSums inner_columns(const TTInnerBackward& op, const Inner& inner, std::int64_t widest, float* scratch,
                           const Stream& stream);

// kernel(D) for the smallest D that holds the widest rank.
template <class Kernel>
auto with_rank(std::int64_t widest, const Kernel& kernel) {
  if (widest <= 32) return kernel(std::integral_constant<int, 32>{});
  if (widest <= 64) return kernel(std::integral_constant<int, 64>{});
  if (widest <= 112) return kernel(std::integral_constant<int, 112>{});
  return kernel(std::integral_constant<int, 128>{});
}

}  // namespace comera::COMERA_CUDA
