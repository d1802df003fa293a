#pragma once

#include "kernels/core/check.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd_dropout.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/attention.h"

// What attention's forward and backward share: how it is cut into pieces, and its dropout.
COMERA_CPU_BEGIN

// Scores are computed for blocks of queries: a whole short sequence, or part of a long one.
inline std::int64_t query_rows(std::int64_t longest) { return longest <= 144 ? longest : 96; }
// Rows of scores lie a cache line more than a power of two apart.
inline std::int64_t score_apart(std::int64_t longest) { return panels_of(longest) * panel_width + 16; }

template <class Operation>
DropoutKey dropout_key(const Operation& op) {
  return op.dropout.active() ? static_cast<const StepInputs*>(op.step_inputs.raw())->dropout : DropoutKey{};
}

// piece(first row, length, head, thread) for every head of every sequence.
template <class Operation, class Piece>
void for_each_head(const Operation& op, const Piece& piece) {
  const auto* offsets = op.sequence_offsets.template data<std::int32_t>();
  const std::int64_t sequences = op.sequence_offsets.elements() - 1;
  for (std::int64_t s = 0; s < sequences; ++s) {
    COMERA_CHECK(offsets[s + 1] >= offsets[s] && offsets[s + 1] - offsets[s] <= op.longest,
                 "attention: sequence {} has {} tokens, but the longest may have {}", s,
                 offsets[s + 1] - offsets[s], op.longest);
  }
  parallel_pieces(sequences * op.heads, thread_limit(), [&](std::int64_t i, int thread) {
    const std::int64_t s = i / op.heads;
    const std::int64_t length = offsets[s + 1] - offsets[s];
    if (length > 0) piece(std::int64_t{offsets[s]}, length, i % op.heads, thread);
  });
}

// Rows at and beyond the last sequence.
inline void clear_padding(const Tensor& tensor, const Tensor& sequence_offsets) {
  const std::int64_t used = sequence_offsets.data<std::int32_t>()[sequence_offsets.elements() - 1];
  const std::int64_t width = tensor.dim(1);
  std::fill(tensor.data<float>() + used * width, tensor.data<float>() + tensor.elements(), 0.F);
}

// log_sum_exp (heads, T) of rows that no sequence has.
inline void clear_padding_of_heads(const Tensor& tensor, const Tensor& sequence_offsets) {
  const std::int64_t used = sequence_offsets.data<std::int32_t>()[sequence_offsets.elements() - 1];
  const std::int64_t tokens = tensor.dim(1);
  for (std::int64_t h = 0; h < tensor.dim(0); ++h) {
    std::fill_n(tensor.data<float>() + h * tokens + used, tokens - used, 0.F);
  }
}

COMERA_CPU_END
