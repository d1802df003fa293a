#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/float8.h"
#include "kernels/ops/products/float8_operands.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {

void float8_linear_forward(const Float8LinearForward& op, const Context& context) {
  const TTLinearForward& linear = op.linear;
  const std::int64_t tokens = linear.x.dim(0), inputs = linear.x.dim(1), total = linear.a.dim(1);
  constexpr DType e4m3 = DType::float8_e4m3;
  using Slots = Float8Slots;
  using Copies = Float8Operands::Copies;
  using Seen = Float8Operands::Seen;
  ArenaScope scope(context.arena);
  const Float8Operands operands(context, scope, op.scales, op.options);
  const Seen seen = op.again ? Seen::again : Seen::first;
  if (seen == Seen::first) {
    ArenaScope inner(context.arena);
    const Float8Operands once(context, inner, op.scales, op.options);
    const Tensor x =
        once.quantize(Slots::x, linear.x, tokens, inputs, e4m3, Copies::straight, seen, op.input_activation)
            .straight;
    const Tensor a = once.quantize(Slots::a, linear.a, inputs, total, e4m3, Copies::transposed).transposed;
    run(context, Float8Product{.a = x,
                               .b = a,
                               .c = linear.xa,
                               .m = tokens,
                               .n = total,
                               .k = inputs,
                               .scale_a = once.scale(Slots::x),
                               .scale_b = once.scale(Slots::a),
                               .fast = true,
                               .type = op.compute()});
  }
  const Tensor xa =
      operands.quantize(Slots::xa, linear.xa, tokens, total, e4m3, Copies::straight, seen).straight;
  for (int i = 0; i < linear.outputs; ++i) {
    const auto& out = linear.output[i];
    const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
    const int b_slot = Slots::b + op.outputs[i];
    ArenaScope inner(context.arena);
    const Float8Operands once(context, inner, op.scales, op.options);
    const Tensor b = once.quantize(b_slot, out.b, rank, width, e4m3, Copies::transposed, seen).transposed;
    run(context, Float8Product{.a = xa.from(out.column),
                               .b = b,
                               .c = out.u,
                               .m = tokens,
                               .n = width,
                               .k = float8_padded(rank),
                               .lda = total,
                               .scale_a = once.scale(Slots::xa),
                               .scale_b = once.scale(b_slot),
                               .fast = true,
                               .type = op.compute()});
    const BiasActivationForward finish{
        .u = out.u, .bias = out.bias, .activation = out.activation, .y = out.y};
    if (!finish.idle()) run(context, finish);
  }
}

void float8_linear_backward(const Float8LinearBackward& op, const Context& context) {
  const TTLinearBackward& linear = op.linear;
  const std::int64_t tokens = linear.x.dim(0), inputs = linear.x.dim(1), total = linear.a.dim(1);
  const std::int64_t summed = float8_padded(tokens);
  constexpr DType e4m3 = DType::float8_e4m3;
  const DType e5m2 = op.options.gradients;
  using Slots = Float8Slots;
  using Copies = Float8Operands::Copies;
  using Seen = Float8Operands::Seen;
  ArenaScope scope(context.arena);
  const Float8Operands operands(context, scope, op.scales, op.options);
  Tensor dxa = linear.dxa;
  if (!dxa) {
    dxa = scope.tensor({tokens, total}, op.compute());
    run(context, Fill{.x = dxa, .value = 0});  // columns that no output uses
  }
  {
    ArenaScope of_outputs(context.arena);
    const Float8Operands shared(context, of_outputs, op.scales, op.options);
    const Tensor xa =
        shared.quantize(Slots::xa, linear.xa, tokens, total, e4m3, Copies::transposed, Seen::again)
            .transposed;
    for (int i = 0; i < linear.outputs; ++i) {
      const auto& out = linear.output[i];
      const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
      const int b_slot = Slots::b + op.outputs[i], du_slot = Slots::du + op.outputs[i];
      const BiasActivationBackward finish{
          .u = out.u, .y = out.y, .activation = out.activation, .dy = out.dy, .dbias = out.dbias};
      if (!finish.idle()) run(context, finish);
      ArenaScope inner(context.arena);
      const Float8Operands once(context, inner, op.scales, op.options);
      const auto du = once.quantize(du_slot, out.dy, tokens, width, e5m2, Copies::both);
      const Tensor b =
          once.quantize(b_slot, out.b, rank, width, e4m3, Copies::straight, Seen::again).straight;
      run(context, Float8Product{.a = xa.from(out.column * summed),
                                 .b = du.transposed,
                                 .c = out.db,
                                 .m = rank,
                                 .n = width,
                                 .k = summed,
                                 .scale_a = once.scale(Slots::xa),
                                 .scale_b = once.scale(du_slot),
                                 .accumulate = true,
                                 .type = op.compute()});
      run(context, Float8Product{.a = du.straight,
                                 .b = b,
                                 .c = dxa.from(out.column),
                                 .m = tokens,
                                 .n = float8_padded(rank),
                                 .k = width,
                                 .ldc = total,
                                 .scale_a = once.scale(du_slot),
                                 .scale_b = once.scale(b_slot),
                                 .type = op.compute()});
    }
  }
  const auto dxa8 = operands.quantize(Slots::dxa, dxa, tokens, total, e5m2, Copies::both);
  const Tensor x = operands
                       .quantize(Slots::x, linear.x, tokens, inputs, e4m3, Copies::transposed, Seen::again,
                                 op.input_activation)
                       .transposed;
  run(context, Float8Product{.a = x,
                             .b = dxa8.transposed,
                             .c = linear.da,
                             .m = inputs,
                             .n = total,
                             .k = summed,
                             .scale_a = operands.scale(Slots::x),
                             .scale_b = operands.scale(Slots::dxa),
                             .accumulate = true,
                             .type = op.compute()});
  const Tensor a =
      operands.quantize(Slots::a, linear.a, inputs, total, e4m3, Copies::straight, Seen::again).straight;
  run(context, Float8Product{.a = dxa8.straight,
                             .b = a,
                             .c = linear.dx,
                             .m = tokens,
                             .n = inputs,
                             .k = total,
                             .scale_a = operands.scale(Slots::dxa),
                             .scale_b = operands.scale(Slots::a),
                             .accumulate = linear.accumulate_dx,
                             .type = op.compute()});
}

// Without 8-bit tensor cores: multiplies the dequantised numbers, which every type represents exactly.
void float8_product(const Float8Product& op, const Context& context) {
  const DType type = op.compute();
  ArenaScope scope(context.arena);
  // Up to the last element that is needed.
  const auto expanded = [&](const Tensor& codes, const Tensor& scale, std::int64_t rows,
                            std::int64_t leading) {
    const std::int64_t count = rows == 0 ? 0 : (rows - 1) * leading + op.k;
    const Tensor numbers = scope.tensor({count}, type);
    run(context, Float8Expand{.x = codes.slice(0, {count}), .scale = scale, .y = numbers});
    return numbers;
  };
  const Tensor a = expanded(op.a, op.scale_a, op.m, op.leading_a());
  const Tensor b = expanded(op.b, op.scale_b, op.n, op.leading_b());
  run(context, MatrixProduct{.a = a,
                             .b = b,
                             .c = op.c,
                             .m = op.m,
                             .n = op.n,
                             .k = op.k,
                             .transpose_b = true,
                             .accumulate = op.accumulate,
                             .lda = op.leading_a(),
                             .ldb = op.leading_b(),
                             .ldc = op.leading_c()});
}

}  // namespace

void compose_float8(Backend& backend, DType compute) {
  backend.compose<Float8Product>(compute, float8_product);
  backend.compose<Float8LinearForward>(compute, float8_linear_forward);
  backend.compose<Float8LinearBackward>(compute, float8_linear_backward);
}

}  // namespace comera
