#include "kernels/ops/compositions.h"

#include <algorithm>

#include "kernels/ops/bias_activation.h"
#include "kernels/ops/context.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/float8.h"
#include "kernels/ops/float8_operands.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/tt_feed_forward.h"
#include "kernels/ops/tt_linear.h"

namespace comera {

namespace {

void tt_linear_forward(const TTLinearForward& op, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), total = op.a.dim(1);
  run(context, MatrixProduct{.a = op.x, .b = op.a, .c = op.xa, .m = tokens, .n = total, .k = inputs});
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
    const Tensor xa = op.xa.slice(out.column, {op.xa.elements() - out.column});
    run(context,
        MatrixProduct{.a = xa, .b = out.b, .c = out.u, .m = tokens, .n = width, .k = rank, .lda = total});
    run(context,
        BiasActivationForward{.u = out.u, .bias = out.bias, .activation = out.activation, .y = out.y});
  }
}

void tt_linear_backward(const TTLinearBackward& op, const Context& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.x.dim(1), total = op.a.dim(1);
  ArenaScope scope(context.arena);
  Tensor dxa = op.dxa;
  if (!dxa) {
    dxa = scope.tensor({tokens, total}, op.compute());
    run(context, Fill{.x = dxa, .value = 0});  // columns that no output uses
  }
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    const std::int64_t rank = out.b.dim(0), width = out.b.dim(1);
    run(context, BiasActivationBackward{
                     .u = out.u, .y = out.y, .activation = out.activation, .dy = out.dy, .dbias = out.dbias});
    const Tensor xa = op.xa.slice(out.column, {op.xa.elements() - out.column});
    run(context, MatrixProduct{.a = xa,
                               .b = out.dy,
                               .c = out.db,
                               .m = rank,
                               .n = width,
                               .k = tokens,
                               .transpose_a = true,
                               .accumulate = true,
                               .lda = total});
    run(context, MatrixProduct{.a = out.dy,
                               .b = out.b,
                               .c = dxa.slice(out.column, {dxa.elements() - out.column}),
                               .m = tokens,
                               .n = rank,
                               .k = width,
                               .transpose_b = true,
                               .ldc = total});
  }
  run(context, MatrixProduct{.a = op.x,
                             .b = dxa,
                             .c = op.da,
                             .m = inputs,
                             .n = total,
                             .k = tokens,
                             .transpose_a = true,
                             .accumulate = true});
  run(context, MatrixProduct{.a = dxa,
                             .b = op.a,
                             .c = op.dx,
                             .m = tokens,
                             .n = inputs,
                             .k = total,
                             .transpose_b = true,
                             .accumulate = op.accumulate_dx});
}

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
    run(context,
        BiasActivationForward{.u = out.u, .bias = out.bias, .activation = out.activation, .y = out.y});
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
      run(context,
          BiasActivationBackward{
              .u = out.u, .y = out.y, .activation = out.activation, .dy = out.dy, .dbias = out.dbias});
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

// Without tensor cores of 8 bits: the numbers that the codes stand for, which every type holds exactly.
void float8_product(const Float8Product& op, const Context& context) {
  const DType type = op.compute();
  ArenaScope scope(context.arena);
  // As far as the last element that is needed.
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

// Rows of logits held at a time: about 16 MiB of float32, whatever the vocabulary.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t elements_per_row) {
  constexpr std::int64_t budget = 4 << 20;
  return std::clamp<std::int64_t>(budget / elements_per_row / 8 * 8, 8, std::max<std::int64_t>(rows, 8));
}

void dense_masked_cross_entropy(const DenseMaskedCrossEntropy& op, const Context& context) {
  const std::int64_t rows = op.h.dim(0), width = op.h.dim(1), classes = op.table.dim(0);
  const std::int64_t chunk = rows_per_chunk(rows, classes);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t size = std::min(chunk, rows - begin);
    ArenaScope scope(context.arena);
    const Tensor logits = scope.tensor({1, size, classes}, op.compute());
    const Tensor h = op.h.rows(begin, size);
    run(context,
        MatrixProduct{
            .a = h, .b = op.table, .c = logits, .m = size, .n = classes, .k = width, .transpose_b = true});
    run(context, SoftmaxCrossEntropy{.logits = logits,
                                     .bias = op.bias,
                                     .dbias = op.dbias,
                                     .targets = op.targets,
                                     .count = op.count,
                                     .row_begin = begin,
                                     .classes = classes,
                                     .gradient = op.gradient,
                                     .results = op.results});
    if (!op.gradient) continue;
    run(context,
        MatrixProduct{
            .a = logits, .b = op.table, .c = op.dh.rows(begin, size), .m = size, .n = width, .k = classes});
    run(context, MatrixProduct{.a = logits,
                               .b = h,
                               .c = op.dtable,
                               .m = classes,
                               .n = width,
                               .k = size,
                               .transpose_a = true,
                               .accumulate = true});
  }
}

// With t[a, k, p, r] = Σ_b h[p, a, b] right[b, k, r], kept as (nl rank) x (rows R), the logits of a chunk are
// one product left x t of (L) x (nl rank) x (rows R), whose memory is (outer L, rows, inner R): class l R +
// r.
void ttm_masked_cross_entropy(const TTMMaskedCrossEntropy& op, const Context& context) {
  const std::int64_t rows = op.h.dim(0), width = op.h.dim(1), classes = op.bias.dim(0);
  const std::int64_t left_rows = op.left.dim(0), nl = op.left.dim(1), rank = op.left.dim(2);
  const std::int64_t nr = op.right.dim(0), right_rows = op.right.dim(2);
  const std::int64_t chunk = rows_per_chunk(rows, left_rows * right_rows + 2 * nl * rank * right_rows);
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t size = std::min(chunk, rows - begin), block = size * right_rows;
    ArenaScope scope(context.arena);
    const Tensor t = scope.tensor({nl * rank, block}, op.compute());
    const Tensor logits = scope.tensor({left_rows, size, right_rows}, op.compute());
    const Tensor h = op.h.rows(begin, size);
    for (std::int64_t a = 0; a < nl; ++a)
      run(context, MatrixProduct{.a = h.slice(a * nr, {h.elements() - a * nr}),
                                 .b = op.right,
                                 .c = t.rows(a * rank, rank),
                                 .m = size,
                                 .n = right_rows,
                                 .k = nr,
                                 .lda = width,
                                 .ldb = rank * right_rows,
                                 .batch = rank,
                                 .stride_b = right_rows,
                                 .stride_c = block});
    run(context,
        MatrixProduct{.a = op.left, .b = t, .c = logits, .m = left_rows, .n = block, .k = nl * rank});
    run(context, SoftmaxCrossEntropy{.logits = logits,
                                     .bias = op.bias,
                                     .dbias = op.dbias,
                                     .targets = op.targets,
                                     .count = op.count,
                                     .row_begin = begin,
                                     .classes = classes,
                                     .gradient = op.gradient,
                                     .results = op.results});
    if (!op.gradient) continue;
    run(context, MatrixProduct{.a = logits,
                               .b = t,
                               .c = op.dleft,
                               .m = left_rows,
                               .n = nl * rank,
                               .k = block,
                               .transpose_b = true,
                               .accumulate = true});
    run(context, MatrixProduct{.a = op.left,
                               .b = logits,
                               .c = t,
                               .m = nl * rank,
                               .n = block,
                               .k = left_rows,
                               .transpose_a = true});  // t is now its own gradient
    // Many products are added up: not in a narrow type.
    const Tensor dh_chunk = op.dh.rows(begin, size);
    const DType master = master_of(op.compute());
    const Tensor dh = master == op.compute() ? dh_chunk : scope.tensor(dh_chunk.shape(), master);
    run(context, Fill{.x = dh, .value = 0});
    for (std::int64_t a = 0; a < nl; ++a)
      run(context, MatrixProduct{.a = h.slice(a * nr, {h.elements() - a * nr}),
                                 .b = t.rows(a * rank, rank),
                                 .c = op.dright,
                                 .m = nr,
                                 .n = right_rows,
                                 .k = size,
                                 .transpose_a = true,
                                 .accumulate = true,
                                 .lda = width,
                                 .ldc = rank * right_rows,
                                 .batch = rank,
                                 .stride_b = block,
                                 .stride_c = right_rows});
    for (std::int64_t k = 0; k < rank; ++k)
      run(context, MatrixProduct{.a = t.slice(k * block, {t.elements() - k * block}),
                                 .b = op.right.slice(k * right_rows, {op.right.elements() - k * right_rows}),
                                 .c = dh,
                                 .m = size,
                                 .n = nr,
                                 .k = right_rows,
                                 .transpose_b = true,
                                 .accumulate = true,
                                 .ldb = rank * right_rows,
                                 .ldc = width,
                                 .batch = nl,
                                 .stride_a = rank * block,
                                 .stride_c = nr});
    if (master != op.compute()) run(context, Cast{.x = dh, .y = dh_chunk});
  }
}

}  // namespace

void register_compositions(Backend& backend) {
  for (DType compute : {DType::float32, DType::float64, DType::bfloat16}) {
    backend.compose<TTLinearForward>(compute, tt_linear_forward);
    backend.compose<TTLinearBackward>(compute, tt_linear_backward);
    backend.compose<TTFeedForwardForward>(compute, tt_feed_forward_forward);
    backend.compose<TTFeedForwardBackward>(compute, tt_feed_forward_backward);
    backend.compose<Float8Product>(compute, float8_product);
    backend.compose<Float8LinearForward>(compute, float8_linear_forward);
    backend.compose<Float8LinearBackward>(compute, float8_linear_backward);
    backend.compose<DenseMaskedCrossEntropy>(compute, dense_masked_cross_entropy);
    backend.compose<TTMMaskedCrossEntropy>(compute, ttm_masked_cross_entropy);
  }
}

}  // namespace comera
