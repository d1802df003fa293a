#include "model/layers/encoder_block.h"

#include "kernels/ops/elementwise/bias_dropout_residual_norm.h"
#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

namespace {
LayerNorm add_norm(ParameterStore& store, const EncoderConfig& config, std::int64_t layer, const char* norm) {
  return LayerNorm::add(store, fmt::format("{}encoder.{}.{}", config.place.prefix, layer, norm),
                        config.hidden, config.norm_eps);
}
}  // namespace

EncoderBlock::EncoderBlock(ParameterStore& store, const EncoderConfig& config,
                           const PositionTables& positions, std::int64_t layer)
    : placement_(config.norm),
      dropout_(config.dropout),
      attention_site_(config.place.dropout_sites +
                      dropout_site::attention_output(static_cast<std::uint32_t>(layer))),
      ffn_site_(config.place.dropout_sites + dropout_site::feed_forward(static_cast<std::uint32_t>(layer))),
      attention_(store, config, positions, layer),
      norm1_(add_norm(store, config, layer, "norm1")),
      ffn_(store, config, layer),
      norm2_(add_norm(store, config, layer, "norm2")) {}

namespace {

NormStatistics new_statistics(const EncoderStep& step, const Tensor& x) {
  Arena& arena = step.context.arena;
  const DType master = master_of(x.dtype());
  return {arena.saved({x.dim(0)}, master), arena.saved({x.dim(0)}, master)};
}

// sum = residual + dropout(branch + bias), in the branch's memory; with a norm also norm(sum).
struct Residual {
  Tensor sum, normed;
  NormStatistics statistics;
};
Residual add_residual(const EncoderStep& step, const Tensor& branch, ParameterId bias, const Tensor& residual,
                      const DropoutSpec& dropout, const LayerNorm* norm) {
  Residual out;
  out.sum = branch;
  BiasDropoutResidualNormForward operation{.x = branch,
                                           .bias = step.store.value(bias),
                                           .residual = residual,
                                           .dropout = dropout,
                                           .step_inputs = step.inputs,
                                           .gamma = {},
                                           .beta = {},
                                           .sum = out.sum,
                                           .normed = {},
                                           .mean = {},
                                           .rstd = {}};
  if (norm != nullptr) {
    out.normed = step.context.arena.saved(residual.shape(), residual.dtype());
    out.statistics = new_statistics(step, residual);
    operation.gamma = step.store.value(norm->gamma);
    operation.beta = step.store.value(norm->beta);
    operation.eps = norm->eps;
    operation.normed = out.normed;
    operation.mean = out.statistics.mean;
    operation.rstd = out.statistics.rstd;
  }
  run(step.context, operation);
  return out;
}

// g: gradient of the norm's output (of the sum without a norm), overwritten by that of the residual.
void residual_backward(const EncoderStep& step, ParameterId bias, const DropoutSpec& dropout, const Tensor& g,
                       const Tensor& dbranch, const LayerNorm* norm, const Tensor& sum,
                       const NormStatistics& statistics, MergedGradients& gradients) {
  ArenaScope scope(step.context.arena);
  const Tensor of_bias = step.store.gradient(bias);
  Tensor unused;  // for a frozen bias
  if (!of_bias) {
    unused = scope.tensor({g.dim(1)}, step.store.dtype());
    run(step.context, Fill{.x = unused, .value = 0});
  }
  BiasDropoutResidualNormBackward operation{.dy = g,
                                            .sum = {},
                                            .gamma = {},
                                            .mean = {},
                                            .rstd = {},
                                            .dropout = dropout,
                                            .step_inputs = step.inputs,
                                            .dresidual = g,
                                            .dx = dbranch,
                                            .dbias = of_bias ? of_bias : unused,
                                            .dgamma = {},
                                            .dbeta = {}};
  if (of_bias) operation.later = gradients.later_sums(scope, (norm != nullptr ? 3 : 1) * g.dim(1));
  if (norm != nullptr) {
    operation.sum = sum;
    operation.gamma = step.store.value(norm->gamma);
    operation.mean = statistics.mean;
    operation.rstd = statistics.rstd;
    operation.dgamma = step.store.gradient(norm->gamma);
    operation.dbeta = step.store.gradient(norm->beta);
  }
  run(step.context, operation);
}

// Gradients of the outputs of a block's two branches, in the same memory unless the first one is read later.
struct Branches {
  Tensor ffn, attention;
};
Branches branches(ArenaScope& scope, const Tensor& dy, const FeedForward::Saved& saved,
                  MergedGradients& gradients) {
  const bool waits = gradients.later() != nullptr && saved.in_one_pass && !saved.in_one_pass->float8;
  const Tensor ffn = gradients.operand(scope, dy.shape(), dy.dtype());
  return {ffn, waits ? gradients.operand(scope, dy.shape(), dy.dtype()) : ffn};
}

// x, or the list's rows of x.
Tensor residual_of(const EncoderStep& step, ArenaScope& scope, const Tensor& x, const RowSubset* rows) {
  if (rows == nullptr) return x;
  const Tensor residual = scope.tensor({rows->most, x.dim(1)}, x.dtype());
  gather(step.context, *rows, x, residual);
  return residual;
}

Tensor normalize(const EncoderStep& step, const LayerNorm& norm, const Tensor& x,
                 const NormStatistics& statistics) {
  const Tensor y = step.context.arena.saved(x.shape(), x.dtype());
  run(step.context, LayerNormForward{.x = x,
                                     .gamma = step.store.value(norm.gamma),
                                     .beta = step.store.value(norm.beta),
                                     .eps = norm.eps,
                                     .y = y,
                                     .mean = statistics.mean,
                                     .rstd = statistics.rstd});
  return y;
}

// g += gradient of the norm's input.
void normalize_backward(const EncoderStep& step, const LayerNorm& norm, const Tensor& x,
                        const NormStatistics& statistics, const Tensor& dy, const Tensor& g,
                        MergedGradients& gradients) {
  ArenaScope scope(step.context.arena);
  run(step.context, LayerNormBackward{.x = x,
                                      .gamma = step.store.value(norm.gamma),
                                      .mean = statistics.mean,
                                      .rstd = statistics.rstd,
                                      .dy = dy,
                                      .dx = g,
                                      .accumulate_dx = true,
                                      .dgamma = step.store.gradient(norm.gamma),
                                      .dbeta = step.store.gradient(norm.beta),
                                      .later = gradients.later_sums(scope, 2 * x.dim(1))});
}

}  // namespace

EncoderBlock::Merged EncoderBlock::merge(const EncoderStep& step, const RowSubset* rows,
                                         Merging& merging) const {
  return {.attention = attention_.merge(step, rows, merging),
          .ffn = ffn_.merge(step, rows ? rows->most : step.batch.capacity.tokens, merging)};
}

EncoderBlock::Saved EncoderBlock::forward(const EncoderStep& step, const Merged& merged, const Tensor& x,
                                          const RowSubset* rows) const {
  return placement_ == NormPlacement::post ? forward_post(step, merged, x, rows)
                                           : forward_pre(step, merged, x, rows);
}

void EncoderBlock::backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                            const RowSubset* rows, MergedGradients& gradients) const {
  placement_ == NormPlacement::post ? backward_post(step, saved, dy, dx, rows, gradients)
                                    : backward_pre(step, saved, dy, dx, rows, gradients);
}

EncoderBlock::Saved EncoderBlock::forward_post(const EncoderStep& step, const Merged& merged, const Tensor& x,
                                               const RowSubset* rows) const {
  ArenaScope scope(step.context.arena);
  Saved saved;
  saved.x = x;
  saved.attention = attention_.forward(step, merged.attention, x, rows);
  const Residual first =
      add_residual(step, saved.attention.y, attention_.output().bias(), residual_of(step, scope, x, rows),
                   step.dropout(dropout_, attention_site_), &norm1_);
  saved.sum1 = first.sum;
  saved.normed1 = first.normed;
  saved.statistics1 = first.statistics;
  saved.ffn = ffn_.forward(step, merged.ffn, saved.normed1);
  const Residual second = add_residual(step, saved.ffn.y, ffn_.down().bias(), saved.normed1,
                                       step.dropout(dropout_, ffn_site_), &norm2_);
  saved.sum2 = second.sum;
  saved.normed2 = second.normed;
  saved.statistics2 = second.statistics;
  saved.y = second.normed;
  return saved;
}

void EncoderBlock::backward_post(const EncoderStep& step, const Saved& saved, const Tensor& dy,
                                 const Tensor& dx, const RowSubset* rows, MergedGradients& gradients) const {
  ArenaScope scope(step.context.arena);
  const auto [dffn, dattention] = branches(scope, dy, saved.ffn, gradients);
  residual_backward(step, ffn_.down().bias(), step.dropout(dropout_, ffn_site_), dy, dffn, &norm2_,
                    saved.sum2, saved.statistics2, gradients);
  ffn_.backward(step, saved.ffn, dffn, dy, true, gradients);
  residual_backward(step, attention_.output().bias(), step.dropout(dropout_, attention_site_), dy, dattention,
                    &norm1_, saved.sum1, saved.statistics1, gradients);
  if (rows) scatter(step.context, *rows, dy, dx);
  attention_.backward(step, saved.attention, dattention, dx, true, rows, gradients);
  gradients.end_block();
}

EncoderBlock::Saved EncoderBlock::forward_pre(const EncoderStep& step, const Merged& merged, const Tensor& x,
                                              const RowSubset* rows) const {
  ArenaScope scope(step.context.arena);
  Saved saved;
  saved.x = x;
  saved.statistics1 = new_statistics(step, x);
  saved.normed1 = normalize(step, norm1_, x, saved.statistics1);
  saved.attention = attention_.forward(step, merged.attention, saved.normed1, rows);
  const Residual first =
      add_residual(step, saved.attention.y, attention_.output().bias(), residual_of(step, scope, x, rows),
                   step.dropout(dropout_, attention_site_), &norm2_);
  saved.sum1 = first.sum;
  saved.normed2 = first.normed;
  saved.statistics2 = first.statistics;
  saved.ffn = ffn_.forward(step, merged.ffn, saved.normed2);
  saved.sum2 = add_residual(step, saved.ffn.y, ffn_.down().bias(), saved.sum1,
                            step.dropout(dropout_, ffn_site_), nullptr)
                   .sum;
  saved.y = saved.sum2;
  return saved;
}

void EncoderBlock::backward_pre(const EncoderStep& step, const Saved& saved, const Tensor& dy,
                                const Tensor& dx, const RowSubset* rows, MergedGradients& gradients) const {
  ArenaScope scope(step.context.arena);
  const auto [dffn, dattention] = branches(scope, dy, saved.ffn, gradients);
  const Tensor dnormed = scope.tensor(dx.shape(), dx.dtype());
  const Tensor dnormed2 = rows ? scope.tensor(dy.shape(), dy.dtype()) : dnormed;
  residual_backward(step, ffn_.down().bias(), step.dropout(dropout_, ffn_site_), dy, dffn, nullptr, {}, {},
                    gradients);
  ffn_.backward(step, saved.ffn, dffn, dnormed2, false, gradients);
  normalize_backward(step, norm2_, saved.sum1, saved.statistics2, dnormed2, dy, gradients);
  residual_backward(step, attention_.output().bias(), step.dropout(dropout_, attention_site_), dy, dattention,
                    nullptr, {}, {}, gradients);
  if (rows) scatter(step.context, *rows, dy, dx);
  attention_.backward(step, saved.attention, dattention, dnormed, false, rows, gradients);
  normalize_backward(step, norm1_, saved.x, saved.statistics1, dnormed, dx, gradients);
  gradients.end_block();
}

}  // namespace comera
