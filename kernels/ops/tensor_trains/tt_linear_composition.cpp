#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/tensor_trains/diagonal.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

namespace comera {

namespace {

void tt_linear_forward(const TTLinearForward& op, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), total = op.a.dim(1);
  run(context, MatrixProduct{.a = op.x, .b = op.a, .c = op.xa, .m = tokens, .n = total, .k = inputs});
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
    const Tensor xa = op.xa.slice(out.column, {op.xa.elements() - out.column});
    const MatrixProduct product{
        .a = xa, .b = out.b, .c = out.u, .m = tokens, .n = width, .k = rank, .lda = total};
    if (out.bias && out.activation == Activation::none && !out.diagonal) {
      run(context, BiasedProduct{.product = product, .bias = out.bias, .rounded = out.rounded_bias});
      continue;
    }
    run(context, product);
    if (out.diagonal) run(context, DiagonalForward{.x = op.x, .diagonal = out.diagonal, .u = out.u});
    const BiasActivationForward finish{
        .u = out.u, .bias = out.bias, .activation = out.activation, .y = out.y};
    if (!finish.idle()) run(context, finish);
  }
}

void tt_linear_backward(const TTLinearBackward& op, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), total = op.a.dim(1);
  ArenaScope scope(context.arena);
  Tensor dxa = op.dxa;
  if (!dxa) {
    dxa = scope.tensor({tokens, total}, op.compute());
    std::int64_t used = 0;
    for (int i = 0; i < op.outputs; ++i) used += op.output[i].b.dim(0);
    if (used < total) run(context, Fill{.x = dxa, .value = 0});
  }
  WeightGradients now{.type = op.compute()};
  const bool wait = op.later != nullptr && context.products == nullptr;  // a log needs them in place
  std::vector<WeightGradient>& gradients = wait ? op.later->gradients : now.gradients;
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
    const bool active = out.activation != Activation::none;
    if (active)
      run(context,
          BiasActivationBackward{
              .u = out.u, .y = out.y, .activation = out.activation, .dy = out.dy, .dbias = out.dbias});
    gradients.push_back({.x = op.xa.from(out.column),
                         .dy = out.dy,
                         .dw = out.db,
                         .dbias = active ? Tensor() : out.dbias,
                         .rows = tokens,
                         .inputs = rank,
                         .outputs = width,
                         .ldx = total});
    run(context, MatrixProduct{.a = out.dy,
                               .b = out.b,
                               .c = dxa.slice(out.column, {dxa.elements() - out.column}),
                               .m = tokens,
                               .n = rank,
                               .k = width,
                               .transpose_b = true,
                               .ldc = total});
  }
  gradients.push_back(
      {.x = op.x, .dy = dxa, .dw = op.da, .dbias = {}, .rows = tokens, .inputs = inputs, .outputs = total});
  if (!wait) run(context, now);
  run(context, MatrixProduct{.a = dxa,
                             .b = op.a,
                             .c = op.dx,
                             .m = tokens,
                             .n = inputs,
                             .k = total,
                             .transpose_b = true,
                             .accumulate = op.accumulate_dx});
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    if (out.diagonal)
      run(context,
          DiagonalBackward{
              .x = op.x, .diagonal = out.diagonal, .du = out.dy, .dx = op.dx, .ddiagonal = out.ddiagonal});
  }
}

}  // namespace

void compose_tt_linear(Backend& backend, DType compute) {
  backend.compose<TTLinearForward>(compute, tt_linear_forward);
  backend.compose<TTLinearBackward>(compute, tt_linear_backward);
}

}  // namespace comera
