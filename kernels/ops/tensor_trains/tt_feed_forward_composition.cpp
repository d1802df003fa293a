#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/diagonal.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_inner.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

namespace comera {

namespace {

// With diagonals the inner tensor is stored, before and after the activation.
struct Inner {
  Tensor u, h;

  template <class Operation>
  Inner(const Operation& op, ArenaScope& scope)
      : u(scope.tensor({op.x.dim(0), op.b_up.dim(1)}, op.compute())),
        h(op.activation == Activation::none ? u : scope.tensor(u.shape(), op.compute())) {}
};

// From op.xa.
template <class Operation>
void inner_forward(const Operation& op, const Inner& inner, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), rank = op.b_up.dim(0), width = op.b_up.dim(1);
  run(context, MatrixProduct{.a = op.xa, .b = op.b_up, .c = inner.u, .m = tokens, .n = width, .k = rank});
  if (op.diagonal_up) run(context, DiagonalForward{.x = op.x, .diagonal = op.diagonal_up, .u = inner.u});
  run(context,
      BiasActivationForward{.u = inner.u, .bias = op.bias, .activation = op.activation, .y = inner.h});
}

void forward_with_diagonals(const TTFeedForwardForward& op, const Context& context) {
  ArenaScope scope(context.arena);
  const Inner inner(op, scope);
  run(context,
      MatrixProduct{
          .a = op.x, .b = op.a_up, .c = op.xa, .m = op.x.dim(0), .n = op.a_up.dim(1), .k = op.x.dim(1)});
  inner_forward(op, inner, context);
  TTLinearForward down{.x = inner.h, .a = op.a_down, .xa = op.ha, .outputs = 1, .output = {}};
  down.output[0] = {.b = op.b_down, .bias = {}, .diagonal = op.diagonal_down, .u = op.y, .y = {}};
  run(context, down);
}

void backward_with_diagonals(const TTFeedForwardBackward& op, const Context& context) {
  ArenaScope scope(context.arena);
  const Inner inner(op, scope);
  const Tensor dh = scope.tensor(inner.h.shape(), op.compute());
  inner_forward(op, inner, context);
  TTLinearBackward down{.x = inner.h,
                        .a = op.a_down,
                        .xa = op.ha,
                        .da = op.da_down,
                        .dx = dh,
                        .outputs = 1,
                        .output = {},
                        .dxa = {}};
  down.output[0] = {.b = op.b_down,
                    .db = op.db_down,
                    .dbias = {},
                    .diagonal = op.diagonal_down,
                    .ddiagonal = op.ddiagonal_down,
                    .u = {},
                    .y = {},
                    .dy = op.dy};
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
  up.output[0] = {.b = op.b_up,
                  .db = op.db_up,
                  .dbias = op.dbias,
                  .diagonal = op.diagonal_up,
                  .ddiagonal = op.ddiagonal_up,
                  .activation = op.activation,
                  .u = inner.u,
                  .y = inner.h,
                  .dy = dh};
  run(context, up);
}

void tt_feed_forward_forward(const TTFeedForwardForward& op, const Context& context) {
  if (op.has_diagonal()) return forward_with_diagonals(op, context);
  const std::int64_t tokens = op.x.dim(0);
  run(context,
      MatrixProduct{.a = op.x, .b = op.a_up, .c = op.xa, .m = tokens, .n = op.a_up.dim(1), .k = op.x.dim(1)});
  run(context, TTInnerForward{.xa = op.xa,
                              .b_up = op.b_up,
                              .bias = op.bias,
                              .a_down = op.a_down,
                              .activation = op.activation,
                              .ha = op.ha});
  run(context,
      MatrixProduct{
          .a = op.ha, .b = op.b_down, .c = op.y, .m = tokens, .n = op.b_down.dim(1), .k = op.b_down.dim(0)});
}

void tt_feed_forward_backward(const TTFeedForwardBackward& op, const Context& context) {
  if (op.has_diagonal()) return backward_with_diagonals(op, context);
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), outputs = op.b_down.dim(1);
  const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
  ArenaScope scope(context.arena);
  const Tensor dha = scope.tensor(op.ha.shape(), op.compute());
  const Tensor dxa = op.dxa ? op.dxa : scope.tensor(op.xa.shape(), op.compute());
  run(context, MatrixProduct{.a = op.dy,
                             .b = op.b_down,
                             .c = dha,
                             .m = tokens,
                             .n = rank_down,
                             .k = outputs,
                             .transpose_b = true});
  run(context, TTInnerBackward{.xa = op.xa,
                               .b_up = op.b_up,
                               .bias = op.bias,
                               .a_down = op.a_down,
                               .activation = op.activation,
                               .dha = dha,
                               .db_up = op.db_up,
                               .dbias = op.dbias,
                               .da_down = op.da_down,
                               .dxa = dxa});
  WeightGradients now{.type = op.compute()};
  const bool wait = op.later != nullptr && context.products == nullptr;  // a log needs them in place
  std::vector<WeightGradient>& gradients = wait ? op.later->gradients : now.gradients;
  gradients.push_back({.x = op.ha,
                       .dy = op.dy,
                       .dw = op.db_down,
                       .dbias = {},
                       .rows = tokens,
                       .inputs = rank_down,
                       .outputs = outputs});
  gradients.push_back({.x = op.x,
                       .dy = dxa,
                       .dw = op.da_up,
                       .dbias = {},
                       .rows = tokens,
                       .inputs = inputs,
                       .outputs = rank_up});
  if (!wait) run(context, now);
  run(context, MatrixProduct{.a = dxa,
                             .b = op.a_up,
                             .c = op.dx,
                             .m = tokens,
                             .n = inputs,
                             .k = rank_up,
                             .transpose_b = true,
                             .accumulate = op.accumulate_dx});
}

}  // namespace

void compose_tt_feed_forward(Backend& backend, DType compute) {
  backend.compose<TTFeedForwardForward>(compute, tt_feed_forward_forward);
  backend.compose<TTFeedForwardBackward>(compute, tt_feed_forward_backward);
}

}  // namespace comera
