#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// For a product log.
inline constexpr const char* scores_stay_wide = "attention is no linear layer";

// Packed variable-length self-attention. Sequence s owns rows [offsets[s], offsets[s+1]); a token attends
// only to its own sequence. For head h, columns [h d, (h+1) d) of q and k, d = their width / heads, and
// likewise of v and out:
//
//   S = scale Q Kᵀ + bias;   P = softmax(S);   out = dropout(P) V;   log_sum_exp[h, t] = log sum_j exp(S_tj)
//
// With slopes, a head's bias falls linearly with the distance of the key, at a separate rate on each side
// (ALiBi: Press et al., 2022): the key d positions before the query gets -slopes[h, 0] d, the key d positions
// after it -slopes[h, 1] d.
//
// With biases, a head's bias is looked up by the distance of the key (Shaw et al., 2018; Raffel et al.,
// 2020): the key at position j gets biases[h, R - 1 + j - t] for the query at position t of R >= longest
// positions. They have no gradient. Not with slopes. Without either there is no bias.
//
// With shared_keys every head has the same keys and values: k and v are one head wide (multi-query attention,
// Shazeer, 2019). With append_one, a head's V has one more column, of ones, which is not stored: the last
// column of the head's part of out is then the row sum of dropout(P). With room_for_one, for shared keys,
// rows of v and dv have room for this column after the values: its content is not read in v, and becomes 0 in
// dv.
//
// With used_values, for shared keys, the columns of v at and beyond it are zeros, such as those that pad a
// rank: they are not read, and are 0 in out and in dv. This is without dropout.
//
// With `queries`, only the first `queries` rows of each sequence are queries: out, log_sum_exp and dq of the
// other rows are 0, and their dout is not read.
//
// The dropout index of (head h, row t, key at position j of its sequence) is (h T + t) longest + j. Rows at
// and beyond offsets' last entry are padding: out is 0 there.
//
// k and v are flat memory whose rows lie k_stride and v_stride elements apart; 0: adjacent.
struct AttentionForward {
  Tensor q;                 // (T, heads x key size)
  Tensor k;                 // (T, kv_heads x key size)
  Tensor v;                 // (T, kv_heads x value size)
  Tensor sequence_offsets;  // int32 (S + 1), non-decreasing; repeats its last entry for absent sequences
  std::int64_t heads = 0;
  std::int64_t longest = 0;  // length limit of a sequence
  double scale = 1;
  DropoutSpec dropout;
  Tensor step_inputs;  // StepInputs; needed with dropout
  Tensor out;          // out (T, heads x (value size + append_one))
  Tensor log_sum_exp;  // out (heads, T)
  bool shared_keys = false;
  bool append_one = false, room_for_one = false;
  std::int64_t k_stride = 0, v_stride = 0;
  Tensor slopes = {};            // (heads, 2), non-negative, in the master type; or left out
  Tensor biases = {};            // (heads, 2 R - 1) in the master type; or left out
  std::int64_t queries = 0;      // per sequence; 0: all of its rows
  std::int64_t used_values = 0;  // 0: all

  std::int64_t kv_heads() const { return shared_keys ? 1 : heads; }
  std::int64_t key_size() const { return q.dim(1) / heads; }
  std::int64_t value_size() const { return out.dim(1) / heads - (append_one ? 1 : 0); }
  std::int64_t computed_values() const { return used_values > 0 ? used_values : value_size(); }
  std::int64_t stored_values() const { return value_size() + (room_for_one ? 1 : 0); }
  std::int64_t most_queries() const { return queries > 0 && queries < longest ? queries : longest; }
  DType compute() const { return q.dtype(); }
  void check() const;
};

// Gradients of the above; P and its dropout are recomputed. dk and dv have the layout of k and v.
struct AttentionBackward {
  Tensor q, k, v, out;
  Tensor log_sum_exp;  // (heads, T)
  Tensor sequence_offsets;
  std::int64_t heads = 0;
  std::int64_t longest = 0;
  double scale = 1;
  DropoutSpec dropout;
  Tensor step_inputs;
  Tensor dout;        // as out
  Tensor dq, dk, dv;  // out, as q, k and v
  bool shared_keys = false;
  bool append_one = false, room_for_one = false;
  std::int64_t k_stride = 0, v_stride = 0;
  Tensor slopes = {};            // (heads, 2), non-negative, in the master type; or left out
  Tensor biases = {};            // (heads, 2 R - 1) in the master type; or left out
  std::int64_t queries = 0;      // per sequence; 0: all of its rows
  std::int64_t used_values = 0;  // 0: all

  std::int64_t kv_heads() const { return shared_keys ? 1 : heads; }
  std::int64_t key_size() const { return q.dim(1) / heads; }
  std::int64_t value_size() const { return out.dim(1) / heads - (append_one ? 1 : 0); }
  std::int64_t computed_values() const { return used_values > 0 ? used_values : value_size(); }
  std::int64_t stored_values() const { return value_size() + (room_for_one ? 1 : 0); }
  std::int64_t most_queries() const { return queries > 0 && queries < longest ? queries : longest; }
  DType compute() const { return q.dtype(); }
  void check() const;
};

// Shared by forward and backward: the keys and values that a head uses, and their row strides.
template <class Operation>
std::int64_t kv_head(const Operation& op, std::int64_t head) {
  return op.shared_keys ? 0 : head;
}
template <class Operation>
std::int64_t key_stride(const Operation& op) {
  return op.k_stride > 0 ? op.k_stride : op.kv_heads() * op.key_size();
}
template <class Operation>
std::int64_t value_stride(const Operation& op) {
  return op.v_stride > 0 ? op.v_stride : op.kv_heads() * op.stored_values();
}
// Where a head's bias at a distance of 0 is, if there are biases.
template <class Operation>
std::int64_t place_of_no_distance(const Operation& op, std::int64_t head) {
  return head * op.biases.dim(1) + op.biases.dim(1) / 2;
}

}  // namespace comera
