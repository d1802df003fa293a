#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void BiasDropoutResidualNormForward::check() const {
  const char* name = "BiasDropoutResidualNormForward";
  const std::int64_t rows = x.dim(0), width = x.dim(1);
  check_tensor(name, "x", x, {rows, width}, compute());
  check_tensor(name, "bias", bias, {width}, master_of(compute()));
  check_tensor(name, "residual", residual, {rows, width}, compute());
  check_tensor(name, "sum", sum, {rows, width}, compute());
  if (dropout.active()) check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  if (!gamma) return;
  check_tensor(name, "gamma", gamma, {width}, master_of(compute()));
  check_tensor(name, "beta", beta, {width}, master_of(compute()));
  check_tensor(name, "normed", normed, {rows, width}, compute());
  check_tensor(name, "mean", mean, {rows}, master_of(compute()));
  check_tensor(name, "rstd", rstd, {rows}, master_of(compute()));
}

Work work_of(const BiasDropoutResidualNormForward& op) {
  return {0, once(op.x, op.bias, op.residual, op.gamma, op.beta, op.sum, op.normed, op.mean, op.rstd)};
}

void BiasDropoutResidualNormBackward::check() const {
  const char* name = "BiasDropoutResidualNormBackward";
  const std::int64_t rows = dy.dim(0), width = dy.dim(1);
  check_tensor(name, "dy", dy, {rows, width}, compute());
  check_tensor(name, "dresidual", dresidual, {rows, width}, compute());
  check_tensor(name, "dx", dx, {rows, width}, compute());
  check_tensor(name, "dbias", dbias, {width}, master_of(compute()));
  if (dropout.active()) check_step_values(name, "step_inputs", step_inputs, sizeof(StepInputs));
  later.check(name, gamma ? 3 : 1, width, compute());
  if (!gamma) return;
  check_tensor(name, "sum", sum, {rows, width}, compute());
  check_tensor(name, "gamma", gamma, {width}, master_of(compute()));
  check_tensor(name, "mean", mean, {rows}, master_of(compute()));
  check_tensor(name, "rstd", rstd, {rows}, master_of(compute()));
  check_tensor(name, "dgamma", dgamma, {width}, master_of(compute()));
  check_tensor(name, "dbeta", dbeta, {width}, master_of(compute()));
}

Work work_of(const BiasDropoutResidualNormBackward& op) {
  return {0, once(op.dy, op.sum, op.gamma, op.mean, op.rstd, op.dresidual, op.dx) +
                 twice(op.dbias, op.dgamma, op.dbeta)};
}

}  // namespace comera
