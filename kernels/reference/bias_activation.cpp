#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/reference/activations.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void bias_activation_forward(const BiasActivationForward& op, const KernelContext&) {
  const std::int64_t rows = op.u.dim(0), width = op.u.dim(1);
  T* u = op.u.data<T>();
  for (std::int64_t i = 0; i < rows * width; ++i) {
    if (op.bias) u[i] += op.bias.data<T>()[i % width];
    if (op.activation != Activation::none) op.y.data<T>()[i] = activate(op.activation, u[i]);
  }
}

template <class T>
void bias_activation_backward(const BiasActivationBackward& op, const KernelContext&) {
  const std::int64_t rows = op.dy.dim(0), width = op.dy.dim(1);
  const T* u = slope_by_argument(op.activation) ? op.u.data<T>() : nullptr;
  const T* y = slope_by_value(op.activation) ? op.y.data<T>() : nullptr;
  T* dy = op.dy.data<T>();
  for (std::int64_t i = 0; i < rows * width; ++i) {
    dy[i] *= slope(op.activation, u, y, i);
    if (op.dbias) op.dbias.data<T>()[i % width] += dy[i];
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<BiasActivationForward>(dtype_of<T>, bias_activation_forward<T>);
  backend.set<BiasActivationBackward>(dtype_of<T>, bias_activation_backward<T>);
}

}  // namespace

void register_bias_activation(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
