#include "kernels/ops/attention/attention.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

// Keys or values, or their gradients: a tensor of rows, or flat memory with row stride `ld`.
void check_rows(const char* operation, const char* name, const Tensor& tensor, std::int64_t rows,
                std::int64_t width, std::int64_t ld, DType dtype) {
  if (ld == 0) return check_tensor(operation, name, tensor, {rows, width}, dtype);
  COMERA_CHECK(ld >= width, "{}: rows of {} are {} wide but {} apart", operation, name, width, ld);
  const std::int64_t least = rows == 0 ? 0 : (rows - 1) * ld + width;
  COMERA_CHECK(tensor.elements() >= least, "{}: {} has {} elements, needs {}", operation, name,
               tensor.elements(), least);
  check_elements(operation, name, tensor, tensor.elements(), dtype);
}

template <class Operation>
void check_common(const char* name, const Operation& op) {
  const std::int64_t rows = op.q.dim(0);
  const DType dtype = op.compute();
  COMERA_CHECK(op.heads >= 1 && op.q.dim(1) % op.heads == 0, "{}: width {} is not divisible by {} heads",
               name, op.q.dim(1), op.heads);
  COMERA_CHECK(op.out.dim(1) % op.heads == 0 && op.value_size() >= 1,
               "{}: width {} of out is not divisible by {} heads", name, op.out.dim(1), op.heads);
  check_tensor(name, "q", op.q, {rows, op.q.dim(1)}, dtype);
  check_rows(name, "k", op.k, rows, op.kv_heads() * op.key_size(), op.k_stride, dtype);
  check_rows(name, "v", op.v, rows, op.kv_heads() * op.stored_values(), op.v_stride, dtype);
  COMERA_CHECK(!op.room_for_one || (op.append_one && op.shared_keys),
               "{}: there is room for a one that is appended to shared values only", name);
  check_tensor(name, "out", op.out, {rows, op.out.dim(1)}, dtype);
  COMERA_CHECK(op.longest >= 1, "{}: the longest sequence must be at least 1, not {}", name, op.longest);
  check_tensor(name, "log_sum_exp", op.log_sum_exp, {op.heads, rows}, master_of(dtype));
  COMERA_CHECK(op.sequence_offsets.elements() >= 2, "{}: sequence_offsets needs at least 2 entries", name);
  check_elements(name, "sequence_offsets", op.sequence_offsets, op.sequence_offsets.elements(), DType::int32);
  COMERA_CHECK(op.queries >= 0, "{}: a sequence cannot have {} queries", name, op.queries);
  COMERA_CHECK(op.used_values >= 0 && op.used_values <= op.value_size() &&
                   (op.used_values == 0 || (op.shared_keys && !op.dropout.active())),
               "{}: {} of {} columns of {} values cannot be in use{}", name, op.used_values, op.value_size(),
               op.shared_keys ? "shared" : "separate", op.dropout.active() ? " with dropout" : "");
  check_optional(name, "slopes", op.slopes, {op.heads, 2}, master_of(dtype));
  if (op.biases) {
    check_tensor(name, "biases", op.biases, {op.heads, op.biases.dim(1)}, master_of(dtype));
    COMERA_CHECK(op.biases.dim(1) % 2 == 1 && op.biases.dim(1) >= 2 * op.longest - 1,
                 "{}: {} biases are not those of two sides of at least {} positions", name, op.biases.dim(1),
                 op.longest);
    COMERA_CHECK(!op.slopes, "{}: takes slopes or biases, not both", name);
  }
  if (op.dropout.active()) check_step_values(name, "step_inputs", op.step_inputs, sizeof(StepInputs));
}

// The maximum number of query rows.
template <class Operation>
std::int64_t query_rows(const Operation& op) {
  const std::int64_t rows = op.q.dim(0);
  if (op.queries == 0) return rows;
  return std::min(rows, (op.sequence_offsets.elements() - 1) * op.most_queries());
}

// Pairs of queries and keys, over all heads.
template <class Operation>
std::int64_t scores_of(const Operation& op) {
  return query_rows(op) * op.longest * op.heads;
}

// Bytes of tensors with a row per token, counting only query rows.
template <class Operation, class... Tensors>
double rows_of_queries(const Operation& op, const Tensors&... tensors) {
  const std::int64_t rows = op.q.dim(0), queries = query_rows(op);
  if (queries == rows) return once(tensors...);
  return once(tensors...) * static_cast<double>(queries) / static_cast<double>(rows);
}

template <class Operation>
double keys_and_values(const Operation& op) {
  return bytes_of(op.q.dim(0) * op.kv_heads() * (op.key_size() + op.computed_values()), op.compute());
}

}  // namespace

void AttentionForward::check() const { check_common("AttentionForward", *this); }

Work work_of(const AttentionForward& op) {
  return {product(scores_of(op), op.key_size() + op.computed_values(), 1),
          rows_of_queries(op, op.q) + once(op.out, op.log_sum_exp) + keys_and_values(op),
          static_cast<double>(scores_of(op))};
}

void AttentionBackward::check() const {
  const char* name = "AttentionBackward";
  check_common(name, *this);
  check_tensor(name, "dout", dout, out.shape(), compute());
  check_tensor(name, "dq", dq, q.shape(), compute());
  check_rows(name, "dk", dk, q.dim(0), kv_heads() * key_size(), k_stride, compute());
  check_rows(name, "dv", dv, q.dim(0), kv_heads() * stored_values(), v_stride, compute());
}

// Recomputed scores; gradients of dropped probabilities and of values; gradients of queries and of keys.
Work work_of(const AttentionBackward& op) {
  return {product(scores_of(op), 3 * op.key_size() + 2 * op.computed_values(), 1),
          rows_of_queries(op, op.q, op.out, op.log_sum_exp, op.dout) + once(op.dq) + 2 * keys_and_values(op),
          static_cast<double>(scores_of(op))};
}

}  // namespace comera
