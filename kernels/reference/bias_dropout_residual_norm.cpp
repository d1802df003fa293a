#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"
#include "kernels/reference/norm_rows.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class Operation>
DropoutKey key_of(const Operation& op) {
  return op.dropout.active() ? static_cast<const StepInputs*>(op.step_inputs.raw())->dropout : DropoutKey{};
}

template <class T>
T mask_of(const DropoutKey& key, const DropoutSpec& dropout, std::int64_t element) {
  if (!dropout.active()) return 1;
  return dropout_keeps(key, dropout, element) ? static_cast<T>(dropout.scale()) : 0;
}

template <class T>
void bias_dropout_residual_norm_forward(const BiasDropoutResidualNormForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1);
  const DropoutKey key = key_of(op);
  const T *x = op.x.data<T>(), *bias = op.bias.data<T>(), *residual = op.residual.data<T>();
  T* sum = op.sum.data<T>();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t e = i * width + j;
      sum[e] = residual[e] + (x[e] + bias[j]) * mask_of<T>(key, op.dropout, e);
    }
    if (op.gamma)
      normalise_row(sum + i * width, op.gamma.data<T>(), op.beta.data<T>(), op.eps, width,
                    op.normed.data<T>() + i * width, op.mean.data<T>()[i], op.rstd.data<T>()[i]);
  }
}

template <class T>
void bias_dropout_residual_norm_backward(const BiasDropoutResidualNormBackward& op, const KernelContext&) {
  const std::int64_t rows = op.dy.dim(0), width = op.dy.dim(1);
  const DropoutKey key = key_of(op);
  const T* dy = op.dy.data<T>();
  T *dresidual = op.dresidual.data<T>(), *dx = op.dx.data<T>(), *dbias = op.dbias.data<T>();
  for (std::int64_t i = 0; i < rows; ++i) {
    if (op.gamma)
      normalise_row_backward(op.sum.data<T>() + i * width, op.gamma.data<T>(), op.mean.data<T>()[i],
                             op.rstd.data<T>()[i], dy + i * width, width, dresidual + i * width, false,
                             op.dgamma.data<T>(), op.dbeta.data<T>());
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t e = i * width + j;
      if (!op.gamma) dresidual[e] = dy[e];
      dx[e] = dresidual[e] * mask_of<T>(key, op.dropout, e);
      dbias[j] += dx[e];
    }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<BiasDropoutResidualNormForward>(dtype_of<T>, bias_dropout_residual_norm_forward<T>);
  backend.set<BiasDropoutResidualNormBackward>(dtype_of<T>, bias_dropout_residual_norm_backward<T>);
}

}  // namespace

void register_bias_dropout_residual_norm(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
