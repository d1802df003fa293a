#include <cmath>
#include <vector>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/bias_dropout_residual_norm.h"
#include "kernels/ops/layer_norm.h"

namespace comera::plain {

namespace {

template <class T>
void normalise_row(const T* x, const T* gamma, const T* beta, double eps, std::int64_t width, T* y, T& mean,
                   T& rstd) {
  T sum = 0, squares = 0;
  for (std::int64_t j = 0; j < width; ++j) sum += x[j];
  mean = sum / width;
  for (std::int64_t j = 0; j < width; ++j) squares += (x[j] - mean) * (x[j] - mean);
  rstd = 1 / std::sqrt(squares / width + static_cast<T>(eps));
  for (std::int64_t j = 0; j < width; ++j) y[j] = gamma[j] * (x[j] - mean) * rstd + beta[j];
}

// Writes (or adds) the gradient of one row; dx may be dy.
template <class T>
void normalise_row_backward(const T* x, const T* gamma, T mean, T rstd, const T* dy, std::int64_t width,
                            T* dx, bool accumulate, T* dgamma, T* dbeta) {
  T sum = 0, product = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const T normal = (x[j] - mean) * rstd, g = gamma[j] * dy[j];
    sum += g;
    product += g * normal;
    dgamma[j] += dy[j] * normal;
    dbeta[j] += dy[j];
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const T normal = (x[j] - mean) * rstd;
    const T value = rstd * (gamma[j] * dy[j] - sum / width - normal * product / width);
    dx[j] = accumulate ? dx[j] + value : value;
  }
}

template <class T>
void layer_norm_forward(const LayerNormForward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  for (std::int64_t i = 0; i < op.x.dim(0); ++i)
    normalise_row(op.x.data<T>() + i * width, op.gamma.data<T>(), op.beta.data<T>(), op.eps, width,
                  op.y.data<T>() + i * width, op.mean.data<T>()[i], op.rstd.data<T>()[i]);
}

template <class T>
void layer_norm_backward(const LayerNormBackward& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  for (std::int64_t i = 0; i < op.x.dim(0); ++i)
    normalise_row_backward(op.x.data<T>() + i * width, op.gamma.data<T>(), op.mean.data<T>()[i],
                           op.rstd.data<T>()[i], op.dy.data<T>() + i * width, width,
                           op.dx.data<T>() + i * width, op.accumulate_dx, op.dgamma.data<T>(),
                           op.dbeta.data<T>());
}

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

}  // namespace

void register_norms(Backend& backend) {
  backend.set<LayerNormForward>(DType::float32, layer_norm_forward<float>);
  backend.set<LayerNormForward>(DType::float64, layer_norm_forward<double>);
  backend.set<LayerNormBackward>(DType::float32, layer_norm_backward<float>);
  backend.set<LayerNormBackward>(DType::float64, layer_norm_backward<double>);
  backend.set<BiasDropoutResidualNormForward>(DType::float32, bias_dropout_residual_norm_forward<float>);
  backend.set<BiasDropoutResidualNormForward>(DType::float64, bias_dropout_residual_norm_forward<double>);
  backend.set<BiasDropoutResidualNormBackward>(DType::float32, bias_dropout_residual_norm_backward<float>);
  backend.set<BiasDropoutResidualNormBackward>(DType::float64, bias_dropout_residual_norm_backward<double>);
}

}  // namespace comera::plain
