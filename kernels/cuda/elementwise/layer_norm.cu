// Layer norm, with the kernels of norm_rows.cu.

#include "kernels/cuda/elementwise/norm_rows.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/layer_norm.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
void layer_norm_forward(const LayerNormForward& op, const KernelContext& context) {
  NormForward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  args.x = op.x.data<T>();
  args.gamma = op.gamma.data<float>(), args.beta = op.beta.data<float>();
  args.eps = static_cast<float>(op.eps);
  args.y = op.y.data<T>(), args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  run_norm_forward(args, context.stream);
}

std::size_t layer_norm_backward_scratch(const LayerNormBackward& op) {
  return norm_scratch(op.x.dim(0), op.x.dim(1), 2, op.later);
}

template <class T>
void layer_norm_backward(const LayerNormBackward& op, const KernelContext& context) {
  NormBackward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  args.dy = op.dy.data<T>();
  args.x = op.x.data<T>(), args.gamma = op.gamma.data<float>();
  args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  args.dsum = op.dx.data<T>(), args.accumulate = op.accumulate_dx;
  run_norm_backward(args, {op.dgamma, op.dbeta}, op.later, context);
}

template <class T>
void register_for(Backend& backend) {
  backend.set<LayerNormForward>(dtype_of<T>, layer_norm_forward<T>);
  backend.set<LayerNormBackward>(dtype_of<T>, layer_norm_backward<T>, layer_norm_backward_scratch);
}

}  // namespace

void register_layer_norm(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
