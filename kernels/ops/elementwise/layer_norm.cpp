#include "kernels/ops/elementwise/layer_norm.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void LayerNormForward::check() const {
  const char* name = "LayerNormForward";
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  check_tensor(name, "x", x, {rows, width}, compute());
  check_tensor(name, "gamma", gamma, {width}, master_of(compute()));
  check_tensor(name, "beta", beta, {width}, master_of(compute()));
  check_tensor(name, "y", y, {rows, width}, compute());
  check_tensor(name, "mean", mean, {rows}, master_of(compute()));
  check_tensor(name, "rstd", rstd, {rows}, master_of(compute()));
}

Work work_of(const LayerNormForward& op) {
  return {0, once(op.x, op.gamma, op.beta, op.y, op.mean, op.rstd)};
}

void LayerNormBackward::check() const {
  const char* name = "LayerNormBackward";
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  check_tensor(name, "x", x, {rows, width}, compute());
  check_tensor(name, "gamma", gamma, {width}, master_of(compute()));
  check_tensor(name, "mean", mean, {rows}, master_of(compute()));
  check_tensor(name, "rstd", rstd, {rows}, master_of(compute()));
  check_tensor(name, "dy", dy, {rows, width}, compute());
  check_tensor(name, "dx", dx, {rows, width}, compute());
  check_tensor(name, "dgamma", dgamma, {width}, master_of(compute()));
  check_tensor(name, "dbeta", dbeta, {width}, master_of(compute()));
  later.check(name, 2, width, compute());
}

Work work_of(const LayerNormBackward& op) {
  return {0, once(op.x, op.gamma, op.mean, op.rstd, op.dy) + (op.accumulate_dx ? 2 : 1) * once(op.dx) +
                 twice(op.dgamma, op.dbeta)};
}

}  // namespace comera
