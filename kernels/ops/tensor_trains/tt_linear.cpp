#include "kernels/ops/tensor_trains/tt_linear.h"

#include <algorithm>

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op, DType factors) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), total = op.a.dim(1);
  const DType dtype = op.compute();
  check_tensor(name, "x", op.x, {tokens, inputs}, dtype);
  check_tensor(name, "a", op.a, {inputs, total}, factors);
  check_tensor(name, "xa", op.xa, {tokens, total}, dtype);
  COMERA_CHECK(op.outputs >= 1 && op.outputs <= max_group_outputs, "{}: {} outputs, expected 1 to {}", name,
               op.outputs, max_group_outputs);
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    const std::int64_t rank = out.b.dim(0);
    check_tensor(name, "b", out.b, {rank, out.b.dim(1)}, factors);
    check_optional(name, "diagonal", out.diagonal, {std::max(inputs, out.b.dim(1))}, master_of(dtype));
    COMERA_CHECK(out.column >= 0 && out.column + rank <= total, "{}: columns {}..{} are outside of a {}",
                 name, out.column, out.column + rank, op.a.shape().text());
  }
}

template <class Operation>
bool any_diagonal(const Operation& op) {
  return std::any_of(op.output.begin(), op.output.begin() + op.outputs,
                     [](const auto& out) { return static_cast<bool>(out.diagonal); });
}

}  // namespace

bool TTLinearForward::has_diagonal() const { return any_diagonal(*this); }
bool TTLinearBackward::has_diagonal() const { return any_diagonal(*this); }

void TTLinearForward::check(DType factors) const {
  check_common("TTLinearForward", *this, factors);
  for (int i = 0; i < outputs; ++i) {
    const Output& out = output[i];
    const Shape shape{x.dim(0), out.b.dim(1)};
    check_optional("TTLinearForward", "bias", out.bias, {out.b.dim(1)}, master_of(compute()));
    check_optional("TTLinearForward", "rounded_bias", out.rounded_bias, {out.b.dim(1)}, compute());
    check_tensor("TTLinearForward", "u", out.u, shape, compute());
    check_activation("TTLinearForward", out.activation);
    if (out.activation != Activation::none) check_tensor("TTLinearForward", "y", out.y, shape, compute());
  }
}

Work work_of(const TTLinearForward& op) {
  const std::int64_t tokens = op.x.dim(0);
  Work work{product(tokens, op.a.dim(1), op.a.dim(0)), once(op.x, op.a, op.xa)};
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    work.flops += product(tokens, out.b.dim(1), out.b.dim(0));
    work.bytes += once(out.b, out.bias, out.diagonal, out.u, out.y);
  }
  return work;
}

void TTLinearBackward::check(DType factors) const {
  check_common("TTLinearBackward", *this, factors);
  check_tensor("TTLinearBackward", "da", da, a.shape(), master_of(compute()));
  check_tensor("TTLinearBackward", "dx", dx, x.shape(), compute());
  check_optional("TTLinearBackward", "dxa", dxa, xa.shape(), compute());
  COMERA_CHECK(later == nullptr || dxa, "TTLinearBackward: what is left for later needs dxa");
  for (int i = 0; i < outputs; ++i) {
    const Output& out = output[i];
    const Shape shape{x.dim(0), out.b.dim(1)};
    check_tensor("TTLinearBackward", "db", out.db, out.b.shape(), master_of(compute()));
    if (out.diagonal)
      check_tensor("TTLinearBackward", "ddiagonal", out.ddiagonal, out.diagonal.shape(),
                   master_of(compute()));
    check_optional("TTLinearBackward", "dbias", out.dbias, {out.b.dim(1)}, master_of(compute()));
    check_tensor("TTLinearBackward", "dy", out.dy, shape, compute());
    check_saved("TTLinearBackward", out.activation, out.u, out.y, shape, compute());
  }
}

Work work_of(const TTLinearBackward& op) {
  const std::int64_t tokens = op.x.dim(0);
  Work work{2 * product(tokens, op.a.dim(1), op.a.dim(0)),
            once(op.x, op.a, op.xa, op.dxa) + twice(op.da) + (op.accumulate_dx ? 2 : 1) * once(op.dx)};
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    work.flops += 2 * product(tokens, out.b.dim(1), out.b.dim(0));
    work.bytes += once(out.b, out.diagonal) + twice(out.db, out.dbias, out.ddiagonal);
    work.bytes += out.activation == Activation::none
                      ? once(out.dy)
                      : once(saved_of(out.activation, out.u, out.y)) + twice(out.dy);
  }
  return work;
}

}  // namespace comera
