#pragma once

#include <cmath>
#include <limits>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/rows.h"

// Operations of the attention kernels on score rows, and the accumulation of gradients that heads share.
COMERA_CPU_BEGIN

inline constexpr float log2_e = 1.44269504f;

// What adds a head's biases: to the scores of the keys `first`, `first` + 1, … positions after a query, of
// which those of `at` are there.

// By slopes for the keys before a query and for those after it.
struct Slopes {
  float before, behind;

  template <class At>
  vec add(vec scores, std::int64_t first, const At&) const {
    vec distance;
    for (int i = 0; i < lanes; ++i) distance[i] = static_cast<float>(i);
    distance += static_cast<float>(first);
    return scores + min(distance * before, distance * -behind);  // the smaller one is at most 0
  }
};
// By a table.
struct Biases {
  const float* no_distance;

  template <class At>
  vec add(vec scores, std::int64_t first, const At& at) const {
    return scores + at.load(no_distance + first);
  }
};
struct NoBias {
  template <class At>
  static vec add(vec scores, std::int64_t, const At&) {
    return scores;
  }
};

// body(bias) for a head, compiled for each kind.
template <class Operation, class Body>
inline void with_bias(const Operation& op, std::int64_t head, const Body& body) {
  if (op.biases) return body(Biases{op.biases.template data<float>() + place_of_no_distance(op, head)});
  if (!op.slopes) return body(NoBias{});
  const float* of_head = op.slopes.template data<float>() + 2 * head;
  body(Slopes{of_head[0], of_head[1]});
}

// Prefetches a head's part of a row that is soon read or written: such parts are too far apart for the
// hardware prefetcher.
template <bool to_write = false, class T>
inline void fetch_part(const T* part, std::int64_t count) {
  const auto* at = reinterpret_cast<const char*>(part);
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(at + b, to_write);
  __builtin_prefetch(at + bytes - 1, to_write);
}

struct RowSums {
  float maximum;  // of the scores
  float all;      // sum of exp(score - maximum)
  float kept;     // the same over the scores that were not dropped

  float log_sum_exp() const { return maximum + std::log(all); }
};

// to = exp(score - the largest score), dropped ones 0. Initially `scores` contains products; score(v, j,
// at) converts the products v of the keys j, j + 1, … of `at` to scores. The row is changed; `to` may be the
// row itself.
template <bool drops, class Score, class T>
inline RowSums softmax_row(float* scores, const Score& score, std::int64_t length, const std::uint8_t* bytes,
                           std::uint32_t threshold, T* to) {
  const vec lowest = splat(-std::numeric_limits<float>::infinity());
  vec top = lowest;
  for_columns(0, length, [&](std::int64_t j, auto at) {
    const vec v = score(at.load(scores + j), j, at);
    at.store(scores + j, v);
    top = max(top, at.keep_or(v, lowest));
  });
  const float maximum = largest(top);
  vec total = splat(0), kept = splat(0);
  for_columns(0, length, [&](std::int64_t j, auto at) {
    const vec e = at.keep(exp2((at.load(scores + j) - maximum) * log2_e));
    total += e;
    const vec left_over = drops ? cpu::kept(e, bytes + j, threshold) : e;
    kept += left_over;
    at.store(to + j, left_over);
  });
  return {maximum, sum(total), sum(kept)};
}

// Gradients of keys or values, accumulated in single precision. If several groups of heads share them, each
// group has its own sums in scratch, which are added in order at the end; otherwise the sums of a narrow type
// are thread-local until a piece is done.
template <class T>
struct SharedGradient {
  const Tensor& gradient;
  std::int64_t width, ld;  // of one head; of the gradient's rows
  std::int64_t rows, groups;
  float* sums;  // (groups, rows, width), or nullptr

  T* place(std::int64_t kv, std::int64_t row) const { return gradient.data<T>() + row * ld + kv * width; }
  float* of_group(std::int64_t group, std::int64_t row) const { return sums + (group * rows + row) * width; }

  // The sums of a piece whose rows begin here.
  float* at(const AttentionPiece& piece, std::int64_t kv, float* own) const {
    if (sums != nullptr) return of_group(piece.group, piece.first);
    if constexpr (is_narrow<T>) {
      return own;
    } else {
      return place(kv, piece.first);
    }
  }
  std::int64_t rows_apart() const { return sums == nullptr && !is_narrow<T> ? ld : width; }

  void finish(const AttentionPiece& piece, std::int64_t kv, const float* own) const {
    if (!is_narrow<T> || sums != nullptr) return;
    copy_rows(own, width, piece.length, width, place(kv, piece.first), ld);
  }

  // Stores a piece's sums from elsewhere, for kernels that always keep them separately.
  void keep(const AttentionPiece& piece, std::int64_t kv, const float* own, std::int64_t own_apart) const {
    if (sums != nullptr)
      return copy_rows(own, own_apart, piece.length, width, of_group(piece.group, piece.first), width);
    copy_rows(own, own_apart, piece.length, width, place(kv, piece.first), ld);
  }

  void add_groups() const {
    if (sums == nullptr) return;
    constexpr std::int64_t together = 128;
    parallel_pieces((rows + together - 1) / together, thread_limit(), [&](std::int64_t piece, int) {
      for (std::int64_t t = piece * together; t < std::min(rows, (piece + 1) * together); ++t) {
        T* to = place(0, t);
        for_columns(0, width, [&](std::int64_t c, auto at) {
          vec total = at.load(of_group(0, t) + c);
          for (std::int64_t g = 1; g < groups; ++g) total += at.load(of_group(g, t) + c);
          at.store(to + c, total);
        });
      }
    });
  }
};
inline bool sums_groups(const AttentionBackward& op) { return op.shared_keys && head_groups(op) > 1; }
inline std::int64_t group_floats(const AttentionBackward& op) {
  return sums_groups(op) ? head_groups(op) * op.q.dim(0) : 0;
}

template <class T>
inline float dot(const T* a, const T* b, std::int64_t count) {
  vec total = splat(0);
  for_columns(0, count, [&](std::int64_t i, auto at) { total += at.load(a + i) * at.load(b + i); });
  return sum(total);
}

// Inputs of the gradient of a score row.
struct Row {
  float log_sum_exp;
  float d;  // Σ_j P_j dP_j = dout · out
  float scale;
  float dsum;  // gradient of the sum of dropped P
  float kept;
  std::uint32_t threshold;
  const std::uint8_t* bytes;  // or nullptr
};

// p: scores -> dropped P, to `p_to`; ds: gradient of dropped P -> gradient of q kᵀ, to `ds_to`. score: as in
// softmax_row.
template <bool drops, class Score, class T>
inline void score_gradients(const Row& row, const Score& score, const float* p, const float* ds,
                            std::int64_t length, T* p_to, T* ds_to) {
  for_columns(0, length, [&](std::int64_t j, auto at) {
    const vec probability = exp2((score(at.load(p + j), j, at) - row.log_sum_exp) * log2_e);
    const vec factor = drops ? cpu::kept(splat(row.kept), row.bytes + j, row.threshold) : splat(1);
    const vec gradient = probability * ((at.load(ds + j) + row.dsum) * factor - row.d) * row.scale;
    at.store(p_to + j, probability * factor);
    at.store(ds_to + j, gradient);
  });
}

COMERA_CPU_END
