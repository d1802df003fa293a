#pragma once

#include <algorithm>

#include "kernels/cuda/activations.h"
#include "kernels/cuda/async_copies.h"
#include "kernels/cuda/tensor_cores.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/tt_inner.h"

// What the kernels of the inner part of a feed-forward network of tensor trains share (tt_inner.cu), in
// bfloat16.
namespace comera::COMERA_CUDA {

// ---- The activation. Kernels spend most of their time on it.

struct Gelu {
  float value, slope;
};

// The normal distribution's tail beyond |u| is its density times a polynomial of 1 / (1 + 0.326 |u|), after
// Hastings (Abramowitz and Stegun, 7.1.25); in s = |u| sqrt(log2(e) / 2) the density is a power of two.
// Values err by up to 6e-6, and for |u| < 3 by a thirtieth of what rounding them to bfloat16 changes; slopes
// by 2e-5.
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
// ---- What kernels are given. Rows of all matrices begin at multiples of 16 bytes.

struct Inner {
  const bfloat16 *xa, *b_up, *a_down, *dha;
  const float* bias;
  int tokens, inner, rank_up, rank_down;
};

// Ranks are padded with zeros to D = 32 or 64.
constexpr std::int64_t most_rank = 64;

// Tiles of a matrix with rows `apart` elements apart, one after the other on their way to shared memory,
// where rows are `stride` elements apart. Columns are multiples of 16 bytes.
template <int rows, int columns, int stride, int threads, class T>
class CopiedTiles {
 public:
  __device__ __forceinline__ CopiedTiles(int thread, const T* first, int apart)
      : from_(first + std::int64_t{row(thread)} * apart + column(thread)), step_(rows_at_once * apart) {}

  // The matrix has so many rows and columns left from the tile's first element on; zeros come for what is
  // beyond them. The next tile is so many elements behind this one.
  __device__ __forceinline__ void copy(AsyncCopies& copies, int thread, T* to, int rows_left,
                                       int columns_left, int next) {
    if (rows_at_once <= rows || row(thread) < rows) {
#pragma unroll
      for (int i = 0; i < pieces; ++i)
        copies.add(to + (row(thread) + i * rows_at_once) * stride + column(thread), from_ + i * step_,
                   row(thread) + i * rows_at_once < rows_left && column(thread) < columns_left);
    }
    from_ += next;
  }

 private:
  static constexpr int V = 16 / sizeof(T), across = columns / V, rows_at_once = threads / across;
  static constexpr int pieces = std::max(1, rows / rows_at_once);
  static_assert(rows_at_once > rows || rows % rows_at_once == 0);
  static __device__ __forceinline__ int row(int thread) { return thread / across; }
  static __device__ __forceinline__ int column(int thread) { return thread % across * V; }

  const T* from_;
  int step_;
};

// A of 16 rows and 16 columns, whose neighbours along the depth word(row, column) gives.
template <class Word>
__device__ __forceinline__ BF16::A fragment(const Word& word) {
  const int row = fragment_row(), column = fragment_column();
  return {{word(row, column), word(row + 8, column), word(row, column + 8), word(row + 8, column + 8)}};
}

// Sixteen rows of a matrix with so many columns, an even number.
__device__ __forceinline__ BF16::A row_fragment(const bfloat16* from, int first_row, int rows,
                                                int first_column, int columns) {
  return fragment([&](int row, int column) {
    const bool real = first_row + row < rows && first_column + column < columns;
    return real ? *reinterpret_cast<const unsigned*>(from + std::int64_t{first_row + row} * columns +
                                                     first_column + column)
                : 0u;
  });
}
// ---- What parts of the columns or of the tokens gave, in their order.

template <int V>
__device__ __forceinline__ Values<V> sum_of_parts(const float* partial, std::int64_t parts,
                                                  std::int64_t apart) {
  Values<V> sum{};
  for (std::int64_t p = 0; p < parts; ++p) {
    const Values<V> part = load<V>(partial + p * apart);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
  }
  return sum;
}

// ---- What is launched. So many blocks fill the largest GPUs: with fewer tokens, columns are divided as
// well. The numbers are the same on every GPU, and with them the bits of the results.

constexpr std::int64_t multiprocessors = 132;

// Over tokens (tt_inner_rows.cu): ha of what h is, or dxa. `to` is (tokens, rank).
std::size_t inner_rows_scratch(std::int64_t tokens, std::int64_t inner, std::int64_t rank, bool wide);
void inner_rows(const Inner& op, bool gradient, bool wide, bfloat16* to, const KernelContext& context);

// Over inner columns (tt_inner_columns.cu): the gradients of what is read for each of them.
std::size_t inner_columns_scratch(const TTInnerBackward& op, bool wide);
void inner_columns(const TTInnerBackward& op, const Inner& inner, bool wide, const KernelContext& context);

// kernel(D): ranks are padded to 64 if they are wide, else to 32.
template <class Kernel>
auto with_rank(bool wide, const Kernel& kernel) {
  return wide ? kernel(std::integral_constant<int, 64>{}) : kernel(std::integral_constant<int, 32>{});
}

}  // namespace comera::COMERA_CUDA
