#include "kernels/ops/tensor_trains/tt_feed_forward.h"

#include <algorithm>

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), inner = op.b_up.dim(1);
  const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
  const DType dtype = op.compute();
  check_activation(name, op.activation);
  check_tensor(name, "x", op.x, {tokens, inputs}, dtype);
  check_tensor(name, "a_up", op.a_up, {inputs, rank_up}, dtype);
  check_tensor(name, "b_up", op.b_up, {rank_up, inner}, dtype);
  check_tensor(name, "bias", op.bias, {inner}, master_of(dtype));
  check_tensor(name, "a_down", op.a_down, {inner, rank_down}, dtype);
  check_tensor(name, "b_down", op.b_down, {rank_down, op.b_down.dim(1)}, dtype);
  check_tensor(name, "xa", op.xa, {tokens, rank_up}, dtype);
  check_tensor(name, "ha", op.ha, {tokens, rank_down}, dtype);
  const std::int64_t outputs = op.b_down.dim(1);
  check_optional(name, "diagonal_up", op.diagonal_up, {std::max(inputs, inner)}, master_of(dtype));
  check_optional(name, "diagonal_down", op.diagonal_down, {std::max(inner, outputs)}, master_of(dtype));
}

}  // namespace

void TTFeedForwardForward::check() const {
  check_common("TTFeedForwardForward", *this);
  check_tensor("TTFeedForwardForward", "y", y, {x.dim(0), b_down.dim(1)}, compute());
}

Work work_of(const TTFeedForwardForward& op) {
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t weights =
      op.a_up.elements() + op.b_up.elements() + op.a_down.elements() + op.b_down.elements();
  return {product(tokens, weights, 1), once(op.x, op.a_up, op.b_up, op.bias, op.a_down, op.b_down, op.xa,
                                            op.ha, op.y, op.diagonal_up, op.diagonal_down)};
}

void TTFeedForwardBackward::check() const {
  const char* name = "TTFeedForwardBackward";
  check_common(name, *this);
  check_tensor(name, "dy", dy, {x.dim(0), b_down.dim(1)}, compute());
  check_tensor(name, "da_up", da_up, a_up.shape(), master_of(compute()));
  check_tensor(name, "db_up", db_up, b_up.shape(), master_of(compute()));
  check_tensor(name, "dbias", dbias, bias.shape(), master_of(compute()));
  check_tensor(name, "da_down", da_down, a_down.shape(), master_of(compute()));
  check_tensor(name, "db_down", db_down, b_down.shape(), master_of(compute()));
  check_tensor(name, "dx", dx, x.shape(), compute());
  if (diagonal_up)
    check_tensor(name, "ddiagonal_up", ddiagonal_up, diagonal_up.shape(), master_of(compute()));
  if (diagonal_down)
    check_tensor(name, "ddiagonal_down", ddiagonal_down, diagonal_down.shape(), master_of(compute()));
  check_optional(name, "dxa", dxa, xa.shape(), compute());
  COMERA_CHECK(later == nullptr || dxa, "{}: what is left for later needs dxa", name);
}

Work work_of(const TTFeedForwardBackward& op) {
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t weights =
      op.a_up.elements() + op.b_up.elements() + op.a_down.elements() + op.b_down.elements();
  return {
      2 * product(tokens, weights, 1) + product(tokens, op.b_up.elements(), 1),  // recomputed h
      once(op.x, op.a_up, op.b_up, op.bias, op.a_down, op.b_down, op.xa, op.ha, op.dy, op.diagonal_up,
           op.diagonal_down) +
          twice(op.da_up, op.db_up, op.dbias, op.da_down, op.db_down, op.ddiagonal_up, op.ddiagonal_down) +
          (op.accumulate_dx ? 2 : 1) * once(op.dx)};
}

}  // namespace comera
