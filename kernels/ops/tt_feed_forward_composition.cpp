#include "kernels/ops/bias_activation.h"
#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/tt_feed_forward.h"
#include "kernels/ops/tt_linear.h"

namespace comera {

namespace {

void tt_feed_forward_forward(const TTFeedForwardForward& op, const Context& context) {
  const Shape inner{op.x.dim(0), op.b_up.dim(1)};
  ArenaScope scope(context.arena);
  const Tensor u = scope.tensor(inner, op.compute());
  const Tensor h = op.activation == Activation::none ? u : scope.tensor(inner, op.compute());
  TTLinearForward up{.x = op.x, .a = op.a_up, .xa = op.xa, .outputs = 1, .output = {}};
  up.output[0] = {.b = op.b_up, .bias = op.bias, .activation = op.activation, .u = u, .y = h};
  run(context, up);
  TTLinearForward down{.x = h, .a = op.a_down, .xa = op.ha, .outputs = 1, .output = {}};
  down.output[0] = {.b = op.b_down, .bias = {}, .u = op.y, .y = {}};
  run(context, down);
}

void tt_feed_forward_backward(const TTFeedForwardBackward& op, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), width = op.b_up.dim(1);
  const Shape inner{tokens, width};
  ArenaScope scope(context.arena);
  const Tensor u = scope.tensor(inner, op.compute());
  const Tensor h = op.activation == Activation::none ? u : scope.tensor(inner, op.compute());
  const Tensor dh = scope.tensor(inner, op.compute()), dy = scope.tensor(op.dy.shape(), op.compute());
  run(context, MatrixProduct{.a = op.xa, .b = op.b_up, .c = u, .m = tokens, .n = width, .k = op.a_up.dim(1)});
  run(context, BiasActivationForward{.u = u, .bias = op.bias, .activation = op.activation, .y = h});
  run(context, Fill{.x = dy, .value = 0});
  run(context, Add{.x = op.dy, .y = dy});
  TTLinearBackward down{
      .x = h, .a = op.a_down, .xa = op.ha, .da = op.da_down, .dx = dh, .outputs = 1, .output = {}, .dxa = {}};
  down.output[0] = {.b = op.b_down, .db = op.db_down, .dbias = {}, .u = {}, .y = {}, .dy = dy};
  run(context, down);
  TTLinearBackward up{.x = op.x,
                      .a = op.a_up,
                      .xa = op.xa,
                      .da = op.da_up,
                      .dx = op.dx,
                      .accumulate_dx = op.accumulate_dx,
                      .outputs = 1,
                      .output = {},
                      .dxa = {}};
  up.output[0] = {
      .b = op.b_up, .db = op.db_up, .dbias = op.dbias, .activation = op.activation, .u = u, .y = h, .dy = dh};
  run(context, up);
}

}  // namespace

void compose_tt_feed_forward(Backend& backend, DType compute) {
  backend.compose<TTFeedForwardForward>(compute, tt_feed_forward_forward);
  backend.compose<TTFeedForwardBackward>(compute, tt_feed_forward_backward);
}

}  // namespace comera
