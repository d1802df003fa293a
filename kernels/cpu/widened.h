#pragma once

#include <type_traits>

#include "kernels/core/tensors/dtype.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/rows.h"

// Blocks of activations in single precision for kernels that compute on them: float rows in place, bfloat16
// rows in a copy that stays in cache.
COMERA_CPU_BEGIN

template <class T>
inline constexpr bool is_narrow = !std::is_same_v<T, float>;

template <class From, class To>
inline void copy_rows(const From* from, std::int64_t from_apart, std::int64_t rows, std::int64_t width,
                      To* to, std::int64_t to_apart) {
  for (std::int64_t i = 0; i < rows; ++i, from += from_apart, to += to_apart) {
    for_columns(0, width, [&](std::int64_t c, auto at) { at.store(to + c, at.load(from + c)); });
  }
}

inline Left widened(const float* x, std::int64_t ld, std::int64_t, std::int64_t, float*) { return {x, ld}; }
inline Left widened(const bfloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t width, float* copy) {
  copy_rows(x, ld, rows, width, copy, width);
  return {copy, width};
}
inline Left transposed(const Left& left) { return {left.a, left.step, left.row}; }

// The size of such a copy in floats.
template <class Operation>
std::int64_t widened_size(const Operation& op, std::int64_t rows, std::int64_t width) {
  return op.compute() == DType::float32 ? 0 : rows * width;
}

// Where a block of results is accumulated: in place, or in a copy that is rounded once.
inline float* summed_in(float* place, float*) { return place; }
inline float* summed_in(bfloat16*, float* copy) { return copy; }

// Rounds such sums into place, and leaves the rounded values in the copy.
inline void round_sums(float*, float*, std::int64_t) {}
inline void round_sums(bfloat16* place, float* copy, std::int64_t count) {
  copy_rows(copy, 0, 1, count, place, 0);
  copy_rows(place, 0, 1, count, copy, 0);
}

COMERA_CPU_END
