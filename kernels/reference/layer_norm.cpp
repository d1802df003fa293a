#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/reference/norm_rows.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

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

template <class T>
void register_for(Backend& backend) {
  backend.set<LayerNormForward>(dtype_of<T>, layer_norm_forward<T>);
  backend.set<LayerNormBackward>(dtype_of<T>, layer_norm_backward<T>);
}

}  // namespace

void register_layer_norm(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
