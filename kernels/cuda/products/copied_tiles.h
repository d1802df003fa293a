#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/products/async_copies.h"

namespace comera::COMERA_CUDA {

// Streams tiles of a matrix with row stride `apart` to shared memory with row stride `stride`, one after the
// other. Columns are multiples of 16 bytes.
template <int rows, int columns, int stride, int threads, class T>
class CopiedTiles {
 public:
  __device__ __forceinline__ CopiedTiles(int thread, const T* first, int apart)
      : from_(first + std::int64_t{row(thread)} * apart + column(thread)), step_(rows_at_once * apart) {}

  // The matrix has the given rows and columns left, counted from the tile's first element; elements beyond
  // them become zeros. The next tile is the given number of elements further.
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

}  // namespace comera::COMERA_CUDA
