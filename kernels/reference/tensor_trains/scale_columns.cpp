#include "kernels/ops/tensor_trains/scale_columns.h"

#include <algorithm>

#include "kernels/ops/tensor_trains/diagonal.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void scale_columns_forward(const ScaleColumnsForward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), ld = op.ldy ? op.ldy : width;
  const T *x = op.x.data<T>(), *gate = op.gate.data<T>();
  T* y = op.y.data<T>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) y[i * ld + j] = x[i * width + j] * gate[j];
}

template <class T>
void scale_columns_backward(const ScaleColumnsBackward& op, const KernelContext&) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), ld = op.ldy ? op.ldy : width;
  const T *x = op.x.data<T>(), *gate = op.gate.data<T>(), *dy = op.dy.data<T>();
  T *dx = op.dx.data<T>(), *dgate = op.dgate.data<T>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      const T gradient = dy[i * ld + j];
      dgate[j] += gradient * x[i * width + j];
      dx[i * width + j] = (op.accumulate_dx ? dx[i * width + j] : 0) + gradient * gate[j];
    }
}

// Calls visit(token, input, output, entry of the diagonal).
template <class Visit>
void for_each(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs, const Visit& visit) {
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < std::max(inputs, outputs); ++i) visit(t, i % inputs, i % outputs, i);
}

template <class T>
void diagonal_forward(const DiagonalForward& op, const KernelContext&) {
  const std::int64_t inputs = op.x.dim(1), outputs = op.u.dim(1);
  const T *x = op.x.data<T>(), *d = op.diagonal.data<T>();
  T* u = op.u.data<T>();
  for_each(op.x.dim(0), inputs, outputs, [&](std::int64_t t, std::int64_t i, std::int64_t j, std::int64_t k) {
    u[t * outputs + j] += d[k] * x[t * inputs + i];
  });
}

template <class T>
void diagonal_backward(const DiagonalBackward& op, const KernelContext&) {
  const std::int64_t inputs = op.x.dim(1), outputs = op.du.dim(1);
  const T *x = op.x.data<T>(), *d = op.diagonal.data<T>(), *du = op.du.data<T>();
  T *dx = op.dx.data<T>(), *dd = op.ddiagonal.data<T>();
  for_each(op.x.dim(0), inputs, outputs, [&](std::int64_t t, std::int64_t i, std::int64_t j, std::int64_t k) {
    dd[k] += du[t * outputs + j] * x[t * inputs + i];
    dx[t * inputs + i] += d[k] * du[t * outputs + j];
  });
}

template <class T>
void register_for(Backend& backend) {
  backend.set<ScaleColumnsForward>(dtype_of<T>, scale_columns_forward<T>);
  backend.set<ScaleColumnsBackward>(dtype_of<T>, scale_columns_backward<T>);
  backend.set<DiagonalForward>(dtype_of<T>, diagonal_forward<T>);
  backend.set<DiagonalBackward>(dtype_of<T>, diagonal_backward<T>);
}

}  // namespace

void register_scale_columns(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
