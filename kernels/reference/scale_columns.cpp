#include "kernels/ops/tensor_trains/scale_columns.h"
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

template <class T>
void register_for(Backend& backend) {
  backend.set<ScaleColumnsForward>(dtype_of<T>, scale_columns_forward<T>);
  backend.set<ScaleColumnsBackward>(dtype_of<T>, scale_columns_backward<T>);
}

}  // namespace

void register_scale_columns(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
