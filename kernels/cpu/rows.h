#pragma once

#include <algorithm>

#include "kernels/cpu/elementwise/simd_dropout.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/threads.h"
#include "kernels/shared/step_values.h"

// Loops over the columns of a row, written once for whole vectors and for the remainder.
COMERA_CPU_BEGIN

// body(c, at) for c = begin, begin + lanes, ...; `at` loads and stores at pointers to column c.
template <class Body>
inline void for_columns(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t c = begin;
  for (; c + lanes <= end; c += lanes) body(c, WholeVector{});
  if (c < end) body(c, PartOfVector{end - c});
}

// The same; first group(c) for as many groups of whole vectors, `vectors` each, as there are.
template <int vectors, class Group, class Body>
inline void for_column_groups(std::int64_t width, const Group& group, const Body& body) {
  std::int64_t c = 0;
  for (; c + vectors * lanes <= width; c += vectors * lanes) group(c);
  for_columns(c, width, body);
}

// Computed in double.
inline double sum_of_squares(const float* x, std::int64_t count) {
  dvec total = {};
  for_columns(0, count, [&](std::int64_t c, auto at) {
    const dvec v = widen(at.load(x + c));
    total += v * v;
  });
  return sum(total);
}

// body(begin, count) for fixed pieces of flat memory.
inline constexpr std::int64_t flat_piece = 16384;
template <class Body>
inline void for_flat_pieces(std::int64_t elements, const Body& body) {
  parallel_pieces((elements + flat_piece - 1) / flat_piece, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t begin = piece * flat_piece;
    body(begin, std::min(flat_piece, elements - begin));
  });
}

// Sums over rows are computed in fixed pieces, whose sums are added in order.
inline std::int64_t row_pieces(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 64, 1, 16); }

// to += from[0] + from[1] + ..., the pieces' sums of `width` columns, with stride `ld`.
inline void add_pieces(float* to, const float* from, std::int64_t ld, std::int64_t pieces,
                       std::int64_t width) {
  for_columns(0, width, [&](std::int64_t c, auto at) {
    vec total = at.load(from + c);
    for (std::int64_t p = 1; p < pieces; ++p) total += at.load(from + p * ld + c);
    at.store(to + c, at.load(to + c) + total);
  });
}

// The dropout multipliers of rows, a range of columns at a time.
class DropoutRows {
 public:
  static constexpr std::int64_t stretch = 1024;

  template <class Operation>
  DropoutRows(const Operation& op, std::int64_t width)
      : active_(op.dropout.active()),
        site_(op.dropout.site),
        threshold_(op.dropout.threshold()),
        scale_(static_cast<float>(op.dropout.scale())),
        width_(width) {
    if (active_) key_ = static_cast<const StepInputs*>(op.step_inputs.raw())->dropout;
  }

  // body(c, multiplier, at) for all columns of a row.
  template <class Body>
  void for_each(std::int64_t row, const Body& body) const {
    for_each(row * width_, width_, body);
  }
  // The same for `count` elements from `first`; c counts from 0.
  template <class Body>
  void for_each(std::int64_t first, std::int64_t count, const Body& body) const {
    if (!active_) {
      for_columns(0, count, [&](std::int64_t c, auto at) { body(c, splat(1), at); });
      return;
    }
    std::uint8_t memory[stretch + 16 + 2 * bytes_per_call];
    for (std::int64_t begin = 0; begin < count; begin += stretch) {
      const std::int64_t end = std::min(count, begin + stretch);
      const std::uint8_t* bytes =
          dropout_run(key_, site_, static_cast<std::uint64_t>(first + begin), end - begin, memory);
      for_columns(begin, end, [&](std::int64_t c, auto at) {
        body(c, kept(splat(scale_), bytes + (c - begin), threshold_), at);
      });
    }
  }

 private:
  bool active_;
  std::uint32_t site_, threshold_;
  float scale_;
  std::int64_t width_;
  DropoutKey key_;
};

COMERA_CPU_END
