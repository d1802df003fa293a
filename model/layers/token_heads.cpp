#include "model/layers/token_heads.h"

#include "kernels/core/check.h"
#include "kernels/ops/elementwise/clicks.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/dropout.h"
#include "kernels/ops/elementwise/gather.h"
#include "kernels/ops/elementwise/layout.h"
#include "tensorized/fused/merging.h"

namespace comera {

namespace {

std::unique_ptr<Linear> make_scores(ParameterStore& store, const EncoderConfig& config, const char* name) {
  return make_linear(store,
                     {.name = name,
                      .outputs = {""},
                      .input_size = config.hidden,
                      .output_size = config.token_outputs(),
                      .scores = true},
                     {}, PlanKind::automatic);
}

RowSubset masked_rows(const PackedBatch& batch) {
  return {.indices = batch.masked_positions, .count = batch.masked_count(), .most = batch.capacity.masked};
}

// logits in the type of y.
void give(const Context& context, const Tensor& logits, const Tensor& y) {
  run(context, Cast{.x = logits, .y = y});
}

}  // namespace

TokenHead::TokenHead(ParameterStore& store, const EncoderConfig& config)
    : dropout_(config.dropout),
      distillation_(config.distillation),
      classifier_(make_scores(store, config, "head.labels")) {}

std::optional<RowSubset> TokenHead::reads(const PackedBatch& batch) const { return masked_rows(batch); }

MergedFactors TokenHead::merge(const EncoderStep& step, Merging& merging) const {
  return classifier_->merge(step.context, step.batch.capacity.masked, merging);
}

void TokenHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
                     MergedGradients* gradients) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const DropoutSpec dropout = step.dropout(dropout_, dropout_site::pooler);
  Tensor features = hidden;
  if (dropout.active()) {  // the norm before it needs its original value
    features = context.arena.saved(hidden.shape(), hidden.dtype());
    run(context, Dropout{.x = hidden, .dropout = dropout, .step_inputs = step.inputs, .y = features});
  }
  const Linear::Saved passed = classifier_->forward(context, features, {});
  const Tensor logits = passed.output();  // (labelled tokens, classes)
  softmax_losses(context,
                 {.logits = logits.reshape({1, logits.dim(0), logits.dim(1)}),
                  .bias = {},
                  .dbias = {},
                  .targets = step.batch.masked_targets,
                  .count = step.batch.masked_count(),
                  .row_begin = 0,
                  .classes = logits.dim(1),
                  .gradient = gradient,
                  .results = step.results},
                 soft_targets(step, distillation_));
  if (gradient) {
    classifier_->backward(context, passed, {logits}, dhidden, false, gradients);
    gradients->end_block();
    if (dropout.active())
      run(context, Dropout{.x = dhidden, .dropout = dropout, .step_inputs = step.inputs, .y = dhidden});
  }
  context.arena.release(mark);
}

void TokenHead::logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const {
  const std::size_t mark = step.context.arena.mark();
  give(step.context, classifier_->forward(step.context, hidden, {}).output(), y);
  step.context.arena.release(mark);
}

SpanHead::SpanHead(ParameterStore& store, const EncoderConfig& config)
    : spans_(make_scores(store, config, "head.spans")) {}

MergedFactors SpanHead::merge(const EncoderStep& step, Merging& merging) const {
  return spans_->merge(step.context, step.batch.capacity.tokens, merging);
}

void SpanHead::lay_out(const EncoderStep& step, const Tensor& logits, const Tensor& table) const {
  constexpr double low = 1e30;
  const Context& context = step.context;
  const auto put = [&](const Tensor& rows, const Tensor& to) {
    run(context,
        ScatterRows{.dy = rows, .indices = step.batch.slots, .count = step.batch.token_count(), .dx = to});
  };
  ArenaScope scope(context.arena);
  const Tensor high = scope.tensor(logits.shape(), logits.dtype());
  const Tensor offsets = scope.tensor(table.shape(), table.dtype());
  run(context, Fill{.x = high, .value = low});
  put(high, offsets);
  run(context, Fill{.x = table, .value = -low});
  run(context, Add{.x = table, .y = offsets});  // exactly 0 where there is a token
  put(logits, table);
  run(context, Add{.x = offsets, .y = table});
}

void SpanHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
                    MergedGradients* gradients) const {
  const Context& context = step.context;
  const MicroBatchCapacity& capacity = step.batch.capacity;
  COMERA_CHECK(capacity.slots == capacity.tokens && capacity.masked >= 2 * capacity.sequences,
               "a batch with {} slots and {} targets is not one of {} questions", capacity.slots,
               capacity.masked, capacity.sequences);
  const std::size_t mark = context.arena.mark();
  const Linear::Saved passed = spans_->forward(context, hidden, {});
  const Tensor logits = passed.output();  // (T, 2)
  const std::int64_t rows = 2 * capacity.sequences;
  const Tensor table = context.arena.saved({capacity.longest * capacity.sequences, 2}, logits.dtype());
  lay_out(step, logits, table);
  run(context, SoftmaxCrossEntropy{.logits = table.reshape({capacity.longest, rows, 1}),
                                   .bias = {},
                                   .dbias = {},
                                   .targets = step.batch.masked_targets.slice(0, {rows}),
                                   .count = step.batch.masked_count(),
                                   .row_begin = 0,
                                   .classes = capacity.longest,
                                   .gradient = gradient,
                                   .results = step.results});
  if (gradient) {
    run(context,
        GatherRows{.x = table, .indices = step.batch.slots, .count = step.batch.token_count(), .y = logits});
    spans_->backward(context, passed, {logits}, dhidden, false, gradients);
    gradients->end_block();
  }
  context.arena.release(mark);
}

void SpanHead::logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const RowSubset rows = masked_rows(step.batch);
  const Tensor chosen = context.arena.saved({rows.most, hidden.dim(1)}, hidden.dtype());
  gather(context, rows, hidden, chosen);
  give(context, spans_->forward(context, chosen, {}).output(), y);
  context.arena.release(mark);
}

ReplacedTokenHead::ReplacedTokenHead(ParameterStore& store, const EncoderConfig& config)
    : weight_(config.generator.weight), activation_(config.activation) {
  const Linear::Spec transform{
      .name = "head.transform", .outputs = {""}, .input_size = config.hidden, .output_size = config.hidden};
  transform_ = make_linear(store, transform, config.form_of(config.tensorized.head, transform));
  detection_ = make_scores(store, config, "head.detection");
}

MergedFactors ReplacedTokenHead::merge(const EncoderStep& step, Merging& merging) const {
  return transform_->merge(step.context, step.batch.capacity.tokens, merging);
}

void ReplacedTokenHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient,
                             const Tensor& dhidden, MergedGradients* gradients) const {
  const Context& context = step.context;
  COMERA_CHECK(step.replaced, "a head for replaced tokens learns beside a generator alone");
  const std::size_t mark = context.arena.mark();
  const Linear::Saved transformed =
      transform_->forward(context, hidden, {.activation = activation_, .merged = step.merged->head});
  const Linear::Saved passed = detection_->forward(context, transformed.output(), {});
  run(context, BinaryCrossEntropy{.logits = passed.output(),
                                  .labels = step.replaced,
                                  .count = step.batch.token_count(),
                                  .targets = step.batch.masked_count(),
                                  .factor = weight_,
                                  .gradient = gradient,
                                  .results = step.results});
  if (gradient) {
    ArenaScope scope(context.arena);
    const Tensor g = scope.tensor(hidden.shape(), hidden.dtype());
    detection_->backward(context, passed, {passed.output()}, g, false);
    transform_->backward(context, transformed, {g}, dhidden, false, gradients);
    gradients->end_block();
  }
  context.arena.release(mark);
}

}  // namespace comera
