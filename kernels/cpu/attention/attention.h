#pragma once

#include "kernels/core/check.h"
#include "kernels/cpu/elementwise/simd_dropout.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"
#include "kernels/ops/attention/attention.h"

// Shared by attention's forward and backward: the partition of the work, and dropout.
COMERA_CPU_BEGIN

// Scores are computed for blocks of queries: a whole short sequence, or part of a long one.
inline std::int64_t query_rows(std::int64_t longest) { return longest <= 144 ? longest : 96; }
// The stride of score rows is a cache line more than a power of two.
inline std::int64_t score_stride(std::int64_t longest) { return panels_of(longest) * panel_width + 16; }

template <class Operation>
DropoutKey dropout_key(const Operation& op) {
  return op.dropout.active() ? static_cast<const StepInputs*>(op.step_inputs.raw())->dropout : DropoutKey{};
}

// The mask bytes of score rows with stride `longest`: of all rows at once, unless most would be for keys that
// the sequence does not have.
struct ScoreDropout {
  DropoutKey key;
  std::uint32_t site;
  std::int64_t longest, length;
  std::uint8_t* memory;
  const std::uint8_t* all = nullptr;
  std::int64_t first = 0;

  static std::int64_t room(std::int64_t longest) { return dropout_room(query_rows(longest) * longest); }

  void begin(std::int64_t first_row, std::int64_t rows) {
    first = first_row;
    if (2 * length < longest) return;
    all = dropout_run(key, site, static_cast<std::uint64_t>(first * longest), (rows - 1) * longest + length,
                      memory);
  }
  const std::uint8_t* row(std::int64_t i) const {
    if (all != nullptr) return all + i * longest;
    return dropout_run(key, site, static_cast<std::uint64_t>((first + i) * longest), length, memory);
  }
};

// Heads that share keys are processed a few at a time, with the keys packed once.
template <class Operation>
std::int64_t heads_together(const Operation& op) {
  return op.shared_keys ? std::min<std::int64_t>(op.heads, 4) : 1;
}
template <class Operation>
std::int64_t head_groups(const Operation& op) {
  return (op.heads + heads_together(op) - 1) / heads_together(op);
}

// Some heads of a sequence.
struct AttentionPiece {
  std::int64_t first, length;  // rows
  std::int64_t queries;        // the first of the rows
  std::int64_t group, head_begin, head_end;
  int thread;
};

// body(piece) for all heads of every sequence.
template <class Operation, class Body>
void for_each_piece(const Operation& op, const Body& body) {
  const auto* offsets = op.sequence_offsets.template data<std::int32_t>();
  const std::int64_t sequences = op.sequence_offsets.elements() - 1;
  const std::int64_t together = heads_together(op), groups = head_groups(op);
  for (std::int64_t s = 0; s < sequences; ++s) {
    COMERA_CHECK(offsets[s + 1] >= offsets[s] && offsets[s + 1] - offsets[s] <= op.longest,
                 "attention: sequence {} has {} tokens, but the longest may have {}", s,
                 offsets[s + 1] - offsets[s], op.longest);
  }
  parallel_pieces(sequences * groups, thread_limit(), [&](std::int64_t i, int thread) {
    const std::int64_t s = i / groups, group = i % groups;
    const std::int64_t length = offsets[s + 1] - offsets[s];
    AttentionPiece piece{offsets[s], length, std::min(length, op.most_queries()), group, group * together,
                         0,          thread};
    piece.head_end = std::min(op.heads, piece.head_begin + together);
    if (piece.length > 0) body(piece);
  });
}

// Rows at and beyond the last sequence, of `width` columns.
template <class T>
void clear_padding(const Tensor& tensor, std::int64_t rows, std::int64_t width, std::int64_t ld,
                   const Tensor& sequence_offsets) {
  const std::int64_t used = sequence_offsets.data<std::int32_t>()[sequence_offsets.elements() - 1];
  for (std::int64_t t = used; t < rows; ++t) std::fill_n(tensor.data<T>() + t * ld, width, T(0.F));
}

// body(begin, end) for the rows that are not queries: those of each sequence, and those after the last one.
template <class Operation, class Body>
void for_other_rows(const Operation& op, const Body& body) {
  const auto* offsets = op.sequence_offsets.template data<std::int32_t>();
  const std::int64_t sequences = op.sequence_offsets.elements() - 1, most = op.most_queries();
  if (most < op.longest) {
    parallel_pieces(sequences, thread_limit(), [&](std::int64_t s, int) {
      if (offsets[s] + most < offsets[s + 1]) body(offsets[s] + most, std::int64_t{offsets[s + 1]});
    });
  }
  body(offsets[sequences], op.q.dim(0));
}

// Zeroes out or dq of such rows.
template <class T, class Operation>
void clear_other_rows(const Operation& op, const Tensor& tensor) {
  const std::int64_t width = tensor.dim(1);
  for_other_rows(op, [&](std::int64_t begin, std::int64_t end) {
    std::fill(tensor.data<T>() + begin * width, tensor.data<T>() + end * width, T(0.F));
  });
}

// What follows the computed values of a head's row of out: zeros, then the row sum.
template <class T>
void end_row(const AttentionForward& op, T* out, float row_sum) {
  const std::int64_t computed = op.computed_values(), size = op.value_size();
  std::fill(out + computed, out + size, T(0.F));
  if (op.append_one) out[size] = T(row_sum);
}

// Zeroes the elements after the computed gradients of each row of shared values.
template <class T>
void clear_other_values(const AttentionBackward& op) {
  const std::int64_t computed = op.computed_values(), stored = op.stored_values();
  if (computed == stored) return;
  for (std::int64_t t = 0; t < op.q.dim(0); ++t) {
    T* row = op.dv.data<T>() + t * value_stride(op);
    std::fill(row + computed, row + stored, T(0.F));
  }
}

inline void clear_other_sums(const AttentionForward& op) {
  auto* log_sum_exp = op.log_sum_exp.data<float>();
  for_other_rows(op, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = 0; h < op.heads; ++h)
      std::fill(log_sum_exp + h * op.q.dim(0) + begin, log_sum_exp + h * op.q.dim(0) + end, 0.F);
  });
}

COMERA_CPU_END
