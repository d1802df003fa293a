#include "kernels/ops/attention.h"

#include "kernels/ops/checks.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op) {
  const Shape shape{op.q.dim(0), op.q.dim(1)};
  const DType dtype = op.compute();
  check_tensor(name, "q", op.q, shape, dtype);
  check_tensor(name, "k", op.k, shape, dtype);
  check_tensor(name, "v", op.v, shape, dtype);
  check_tensor(name, "out", op.out, shape, dtype);
  COMERA_CHECK(op.heads >= 1 && shape[1] % op.heads == 0, "{}: width {} is not divisible by {} heads", name,
               shape[1], op.heads);
  COMERA_CHECK(op.longest >= 1, "{}: the longest sequence must be at least 1, not {}", name, op.longest);
  check_tensor(name, "log_sum_exp", op.log_sum_exp, {op.heads, shape[0]}, dtype);
  COMERA_CHECK(op.sequence_offsets.elements() >= 2, "{}: sequence_offsets needs at least 2 entries", name);
  check_elements(name, "sequence_offsets", op.sequence_offsets, op.sequence_offsets.elements(), DType::int32);
  if (op.dropout.active()) check_step_values(name, "step_inputs", op.step_inputs, sizeof(StepInputs));
}

}  // namespace

void AttentionForward::check() const { check_common("AttentionForward", *this); }

void AttentionBackward::check() const {
  check_common("AttentionBackward", *this);
  for (const auto& [name, tensor] : {std::pair{"dout", dout}, {"dq", dq}, {"dk", dk}, {"dv", dv}})
    check_tensor("AttentionBackward", name, tensor, q.shape(), compute());
}

}  // namespace comera
