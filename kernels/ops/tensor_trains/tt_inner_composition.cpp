#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/tt_inner.h"

namespace comera {

namespace {

// u, biased, and h = activation(u), which is u itself without an activation.
struct Inner {
  Tensor u, h;
  std::int64_t tokens, width, rank_up, rank_down;

  template <class Operation>
  Inner(const Context& context, ArenaScope& scope, const Operation& op)
      : tokens(op.xa.dim(0)), width(op.b_up.dim(1)), rank_up(op.b_up.dim(0)), rank_down(op.a_down.dim(1)) {
    u = scope.tensor({tokens, width}, op.compute());
    h = op.activation == Activation::none ? u : scope.tensor({tokens, width}, op.compute());
    run(context, MatrixProduct{.a = op.xa, .b = op.b_up, .c = u, .m = tokens, .n = width, .k = rank_up});
    run(context, BiasActivationForward{.u = u, .bias = op.bias, .activation = op.activation, .y = h});
  }
};

void tt_inner_forward(const TTInnerForward& op, const Context& context) {
  ArenaScope scope(context.arena);
  const Inner inner(context, scope, op);
  run(context, MatrixProduct{.a = inner.h,
                             .b = op.a_down,
                             .c = op.ha,
                             .m = inner.tokens,
                             .n = inner.rank_down,
                             .k = inner.width});
}

void tt_inner_backward(const TTInnerBackward& op, const Context& context) {
  ArenaScope scope(context.arena);
  const Inner inner(context, scope, op);
  const Tensor du = scope.tensor(inner.u.shape(), op.compute());
  run(context, MatrixProduct{.a = inner.h,
                             .b = op.dha,
                             .c = op.da_down,
                             .m = inner.width,
                             .n = inner.rank_down,
                             .k = inner.tokens,
                             .transpose_a = true,
                             .accumulate = true});
  run(context, MatrixProduct{.a = op.dha,
                             .b = op.a_down,
                             .c = du,
                             .m = inner.tokens,
                             .n = inner.width,
                             .k = inner.rank_down,
                             .transpose_b = true});
  run(context, BiasActivationBackward{
                   .u = inner.u, .y = inner.h, .activation = op.activation, .dy = du, .dbias = op.dbias});
  run(context, MatrixProduct{.a = op.xa,
                             .b = du,
                             .c = op.db_up,
                             .m = inner.rank_up,
                             .n = inner.width,
                             .k = inner.tokens,
                             .transpose_a = true,
                             .accumulate = true});
  run(context, MatrixProduct{.a = du,
                             .b = op.b_up,
                             .c = op.dxa,
                             .m = inner.tokens,
                             .n = inner.rank_up,
                             .k = inner.width,
                             .transpose_b = true});
}

}  // namespace

void compose_tt_inner(Backend& backend, DType compute) {
  backend.compose<TTInnerForward>(compute, tt_inner_forward);
  backend.compose<TTInnerBackward>(compute, tt_inner_backward);
}

}  // namespace comera
