#pragma once

#include <cmath>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/rows.h"

// What attention's kernels do with rows of scores, and where they sum up gradients that heads share.
COMERA_CPU_BEGIN

// How a head's scores fall with distance: to the keys before a query and to those behind it.
class Slopes {
 public:
  template <class Operation>
  Slopes(const Operation& op, std::int64_t head) : none_(!op.slopes) {
    if (none_) return;
    before_ = op.slopes.template data<float>()[2 * head];
    behind_ = op.slopes.template data<float>()[2 * head + 1];
  }

  // A row of scores: those of the query at `place` of its sequence.
  void add(float* scores, std::int64_t place, std::int64_t length) const {
    if (none_) return;
    for_columns(0, length, [&](std::int64_t j, auto at) {
      at.store(scores + j, at.load(scores + j) + bias(j - place));
    });
  }
  // The same of products that are not scaled yet.
  void scale_and_add(float* scores, float scale, std::int64_t place, std::int64_t length) const {
    for_columns(0, length, [&](std::int64_t j, auto at) {
      const vec scaled = at.load(scores + j) * scale;
      at.store(scores + j, none_ ? scaled : scaled + bias(j - place));
    });
  }

 private:
  // Of the keys `first`, `first` + 1, … places behind the query. One of the two products is negative, or both
  // 0.
  vec bias(std::int64_t first) const {
    vec distance;
    for (int i = 0; i < lanes; ++i) distance[i] = static_cast<float>(i);
    distance += static_cast<float>(first);
    return min(distance * before_, distance * -behind_);
  }

  bool none_;
  float before_ = 0, behind_ = 0;
};

struct RowSums {
  float log_sum_exp;  // log of the sum
  float inverse;      // 1 / sum
  float kept;         // sum of what was not dropped
};

// scores = exp(scores - their maximum), dropped ones 0.
template <bool drops>
inline RowSums softmax_row(float* scores, std::int64_t length, const std::uint8_t* bytes,
                           std::uint32_t threshold) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  vec top = splat(scores[0]);
  for (std::int64_t j = 0; j < whole; j += lanes) top = max(top, load(scores + j));
  float maximum = largest(top);
  for (std::int64_t j = whole; j < length; ++j) maximum = std::max(maximum, scores[j]);
  vec total = splat(0), kept = splat(0);
  for (std::int64_t j = 0; j < whole; j += lanes) {
    const vec e = exp(load(scores + j) - maximum);
    total += e;
    const vec left_over = drops ? e * keeps(bytes + j, threshold, 1.F) : e;
    kept += left_over;
    store(scores + j, left_over);
  }
  if (left > 0) {
    const vec e = keep_first(exp(load_first(scores + whole, left) - maximum), left);
    total += e;
    const vec left_over = drops ? e * keeps(bytes + whole, threshold, 1.F) : e;
    kept += left_over;
    store_first(scores + whole, left_over, left);
  }
  const float s = sum(total);
  return {maximum + std::log(s), 1.F / s, sum(kept)};
}

// Gradients of keys or values, summed in single precision. Where several groups of heads share them, each
// group has sums of its own in scratch, which are added in order at the end; otherwise the sums of a narrow
// type are a thread's own until a piece is done.
template <class T>
struct SharedGradient {
  const Tensor& gradient;
  std::int64_t width, ld;  // of one head; of gradient's rows
  std::int64_t rows, groups;
  float* sums;  // (groups, rows, width), or nullptr

  T* place(std::int64_t kv, std::int64_t row) const { return gradient.data<T>() + row * ld + kv * width; }
  float* of_group(std::int64_t group, std::int64_t row) const { return sums + (group * rows + row) * width; }

  // Where the sums of a piece whose rows begin here are.
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

  // A piece's sums that lie elsewhere, for kernels that keep them so in any case.
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
        for (std::int64_t c = 0; c < width; ++c) {
          float total = of_group(0, t)[c];
          for (std::int64_t g = 1; g < groups; ++g) total += of_group(g, t)[c];
          to[c] = T(total);
        }
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
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) total += load(a + i) * load(b + i);
  float rest = 0;
  for (; i < count; ++i) rest += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum(total) + rest;
}

// What the gradient of a row of scores needs.
struct Row {
  float log_sum_exp;
  float d;  // Σ_j P_j dP_j = dout · out
  float scale;
  float dsum;  // gradient of the sum of dropped P
  float kept;
  std::uint32_t threshold;
  const std::uint8_t* bytes;  // or nullptr
};

// p: scores -> dropped P;   ds: gradient of dropped P -> gradient of q kᵀ
template <bool drops>
inline void score_gradients(const Row& row, float* p, float* ds, std::int64_t length) {
  const std::int64_t whole = length / lanes * lanes, left = length - whole;
  const auto gradients = [&](vec score, vec dp, std::int64_t j, vec& dropped, vec& gradient) {
    const vec probability = exp(score - row.log_sum_exp);
    const vec factor = drops ? keeps(row.bytes + j, row.threshold, row.kept) : splat(1);
    dropped = probability * factor;
    gradient = probability * ((dp + row.dsum) * factor - row.d) * row.scale;
  };
  vec dropped, gradient;
  for (std::int64_t j = 0; j < whole; j += lanes) {
    gradients(load(p + j), load(ds + j), j, dropped, gradient);
    store(p + j, dropped);
    store(ds + j, gradient);
  }
  if (left > 0) {
    gradients(load_first(p + whole, left), load_first(ds + whole, left), whole, dropped, gradient);
    store_first(p + whole, dropped, left);
    store_first(ds + whole, gradient, left);
  }
}

COMERA_CPU_END
