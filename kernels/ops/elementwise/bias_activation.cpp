#include "kernels/ops/elementwise/bias_activation.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void BiasActivationForward::check() const {
  const char* name = "BiasActivationForward";
  check_tensor(name, "u", u, {u.dim(0), u.dim(1)}, compute());
  check_optional(name, "bias", bias, {u.dim(1)}, master_of(compute()));
  check_activation(name, activation);
  if (activation != Activation::none) check_tensor(name, "y", y, u.shape(), compute());
}

Work work_of(const BiasActivationForward& op) {
  return {0, (op.bias ? twice(op.u) : once(op.u)) + once(op.bias, op.y)};
}

void BiasActivationBackward::check() const {
  const char* name = "BiasActivationBackward";
  check_tensor(name, "dy", dy, {dy.dim(0), dy.dim(1)}, compute());
  check_optional(name, "dbias", dbias, {dy.dim(1)}, master_of(compute()));
  check_saved(name, activation, u, y, dy.shape(), compute());
}

Work work_of(const BiasActivationBackward& op) {
  if (op.activation == Activation::none) return {0, once(op.dy) + twice(op.dbias)};
  return {0, once(saved_of(op.activation, op.u, op.y)) + twice(op.dy, op.dbias)};
}

}  // namespace comera
