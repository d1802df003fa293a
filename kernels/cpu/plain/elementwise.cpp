#include <algorithm>

#include "kernels/cpu/plain/activations.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/bias_activation.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/scale_columns.h"

namespace comera::plain {

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
  const T* u = op.activation == Activation::gelu ? op.u.data<T>() : nullptr;
  const T* y = op.activation == Activation::tanh ? op.y.data<T>() : nullptr;
  T* dy = op.dy.data<T>();
  for (std::int64_t i = 0; i < rows * width; ++i) {
    dy[i] *= slope(op.activation, u, y, i);
    if (op.dbias) op.dbias.data<T>()[i % width] += dy[i];
  }
}

template <class T>
void dropout(const Dropout& op, const KernelContext&) {
  for (std::int64_t i = 0; i < op.x.elements(); ++i) {
    T mask = 1;
    if (op.dropout.active())
      mask = dropout_keeps(static_cast<const StepInputs*>(op.step_inputs.raw())->dropout, op.dropout, i)
                 ? static_cast<T>(op.dropout.scale())
                 : 0;
    op.y.data<T>()[i] = op.x.data<T>()[i] * mask;
  }
}

template <class T>
void scale_columns_forward(const ScaleColumnsForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), apart = op.ldy ? op.ldy : width;
  const T *x = op.x.data<T>(), *gate = op.gate.data<T>();
  T* y = op.y.data<T>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) y[i * apart + j] = x[i * width + j] * gate[j];
}

template <class T>
void scale_columns_backward(const ScaleColumnsBackward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), apart = op.ldy ? op.ldy : width;
  const T *x = op.x.data<T>(), *gate = op.gate.data<T>(), *dy = op.dy.data<T>();
  T *dx = op.dx.data<T>(), *dgate = op.dgate.data<T>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      const T gradient = dy[i * apart + j];
      dgate[j] += gradient * x[i * width + j];
      dx[i * width + j] = gradient * gate[j];
    }
}

template <class T>
void swap_axes(const SwapAxes& op, const KernelContext&) {
  const std::int64_t outer = op.x.dim(0), p = op.x.dim(1), q = op.x.dim(2), inner = op.x.dim(3);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < p; ++i)
      for (std::int64_t j = 0; j < q; ++j)
        for (std::int64_t c = 0; c < inner; ++c)
          op.y.data<T>()[((o * q + j) * p + i) * inner + c] =
              op.x.data<T>()[((o * p + i) * q + j) * inner + c];
}

template <class T>
void fill(const Fill& op, const KernelContext&) {
  std::fill_n(op.x.data<T>(), op.x.elements(), static_cast<T>(op.value));
}

template <class T>
void add(const Add& op, const KernelContext&) {
  for (std::int64_t i = 0; i < op.x.elements(); ++i) op.y.data<T>()[i] += op.x.data<T>()[i];
}

template <class T>
void cast(const Cast& op, const KernelContext&) {
  const auto set = [&](const auto& x_at) {
    for (std::int64_t i = 0; i < op.x.elements(); ++i) op.y.data<T>()[i] = static_cast<T>(x_at(i));
  };
  if (op.x.dtype() == DType::float64)
    set([x = op.x.data<double>()](std::int64_t i) { return x[i]; });
  else if (op.x.dtype() == DType::float32)
    set([x = op.x.data<float>()](std::int64_t i) { return x[i]; });
  else
    set([x = op.x.data<bfloat16>()](std::int64_t i) { return static_cast<float>(x[i]); });
}

template <class T>
void register_for(Backend& backend) {
  backend.set<BiasActivationForward>(dtype_of<T>, bias_activation_forward<T>);
  backend.set<BiasActivationBackward>(dtype_of<T>, bias_activation_backward<T>);
  backend.set<Dropout>(dtype_of<T>, dropout<T>);
  backend.set<ScaleColumnsForward>(dtype_of<T>, scale_columns_forward<T>);
  backend.set<ScaleColumnsBackward>(dtype_of<T>, scale_columns_backward<T>);
  backend.set<SwapAxes>(dtype_of<T>, swap_axes<T>);
  backend.set<Fill>(dtype_of<T>, fill<T>);
  backend.set<Add>(dtype_of<T>, add<T>);
  backend.set<Cast>(dtype_of<T>, cast<T>);
}

}  // namespace

void register_elementwise(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::plain
