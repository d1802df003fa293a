// The end of a block: bias, dropout, residual and norm in one pass, with the kernels of norm_rows.cu.

#include "kernels/cuda/elementwise/norm_rows.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
void bias_dropout_residual_norm_forward(const BiasDropoutResidualNormForward& op,
                                        const KernelContext& context) {
  NormForward<T> args{};
  args.rows = op.x.dim(0), args.width = op.x.dim(1);
  args.x = op.x.data<T>(), args.bias = op.bias.data<float>(), args.residual = op.residual.data<T>();
  args.dropout = mask_of(op.dropout, op.step_inputs);
  args.sum = op.sum.data<T>();
  if (op.gamma) {
    args.gamma = op.gamma.data<float>(), args.beta = op.beta.data<float>();
    args.eps = static_cast<float>(op.eps);
    args.y = op.normed.data<T>(), args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  }
  run_norm_forward(args, context.stream);
}

std::size_t bias_dropout_residual_norm_backward_scratch(const BiasDropoutResidualNormBackward& op) {
  return norm_scratch(op.dy.dim(0), op.dy.dim(1), op.gamma ? 3 : 1, op.later);
}

template <class T>
void bias_dropout_residual_norm_backward(const BiasDropoutResidualNormBackward& op,
                                         const KernelContext& context) {
  NormBackward<T> args{};
  args.rows = op.dy.dim(0), args.width = op.dy.dim(1);
  args.dy = op.dy.data<T>();
  args.dsum = op.dresidual.data<T>(), args.dx = op.dx.data<T>();
  args.dropout = mask_of(op.dropout, op.step_inputs);
  if (!op.gamma) return run_norm_backward(args, {op.dbias}, op.later, context);
  args.x = op.sum.data<T>(), args.gamma = op.gamma.data<float>();
  args.mean = op.mean.data<float>(), args.rstd = op.rstd.data<float>();
  run_norm_backward(args, {op.dgamma, op.dbeta, op.dbias}, op.later, context);
}

template <class T>
void register_for(Backend& backend) {
  backend.set<BiasDropoutResidualNormForward>(dtype_of<T>, bias_dropout_residual_norm_forward<T>);
  backend.set<BiasDropoutResidualNormBackward>(dtype_of<T>, bias_dropout_residual_norm_backward<T>,
                                               bias_dropout_residual_norm_backward_scratch);
}

}  // namespace

void register_bias_dropout_residual_norm(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
