#pragma once

#include "kernels/core/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// Packed variable-length self-attention. Sequence s owns rows [offsets[s], offsets[s+1]); a token attends to
// its own sequence only. For head h, columns [h d, (h+1) d), d = width / heads:
//
//   P = softmax(scale Q Kᵀ);   out = dropout(P) V;   log_sum_exp[h, t] = log sum_j exp(scale q_t k_j)
//
// Dropout's element index of (head h, row t, key at place j of its sequence) is (h T + t) longest + j.
// Rows at and beyond offsets' last entry are padding: out is 0 there.
struct AttentionForward {
  Tensor q, k, v;           // (T, width)
  Tensor sequence_offsets;  // int32 (S + 1), non-decreasing; repeats its last entry for absent sequences
  std::int64_t heads = 0;
  std::int64_t longest = 0;  // no sequence is longer
  double scale = 1;
  DropoutSpec dropout;
  Tensor step_inputs;  // StepInputs; needed with dropout
  Tensor out;          // out (T, width)
  Tensor log_sum_exp;  // out (heads, T)

  DType compute() const { return q.dtype(); }
  void check() const;
};

// Gradients of the above; P and its dropout are computed again.
struct AttentionBackward {
  Tensor q, k, v, out;  // (T, width)
  Tensor log_sum_exp;   // (heads, T)
  Tensor sequence_offsets;
  std::int64_t heads = 0;
  std::int64_t longest = 0;
  double scale = 1;
  DropoutSpec dropout;
  Tensor step_inputs;
  Tensor dout;        // (T, width)
  Tensor dq, dk, dv;  // out (T, width)

  DType compute() const { return q.dtype(); }
  void check() const;
};

}  // namespace comera
