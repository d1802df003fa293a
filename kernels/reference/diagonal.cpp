#include "kernels/ops/tensor_trains/diagonal.h"

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

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
  backend.set<DiagonalForward>(dtype_of<T>, diagonal_forward<T>);
  backend.set<DiagonalBackward>(dtype_of<T>, diagonal_backward<T>);
}

}  // namespace

void register_diagonal(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
