#include "kernels/ops/tensor_trains/diagonal.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op, const Tensor& u) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), outputs = u.dim(1);
  const std::int64_t wide = std::max(inputs, outputs), narrow = std::min(inputs, outputs);
  check_tensor(name, "x", op.x, {tokens, inputs}, op.compute());
  check_tensor(name, "u", u, {tokens, outputs}, op.compute());
  COMERA_CHECK(narrow > 0 && wide % narrow == 0, "{}: neither of {} inputs and {} outputs divides the other",
               name, inputs, outputs);
  check_tensor(name, "diagonal", op.diagonal, {wide}, master_of(op.compute()));
}

}  // namespace

void DiagonalForward::check() const { check_common("DiagonalForward", *this, u); }

Work work_of(const DiagonalForward& op) { return {0, once(op.x, op.diagonal) + twice(op.u)}; }

void DiagonalBackward::check() const {
  check_common("DiagonalBackward", *this, du);
  check_tensor("DiagonalBackward", "dx", dx, x.shape(), compute());
  check_tensor("DiagonalBackward", "ddiagonal", ddiagonal, diagonal.shape(), master_of(compute()));
}

Work work_of(const DiagonalBackward& op) {
  return {0, once(op.x, op.diagonal, op.du) + twice(op.dx) + twice(op.ddiagonal)};
}

}  // namespace comera
