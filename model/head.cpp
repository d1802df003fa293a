#include "model/head.h"

#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/gather.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/layout.h"
#include "kernels/ops/sequence.h"

namespace comera {

MaskedLanguageHead::MaskedLanguageHead(ParameterStore& store, const EncoderConfig& config,
                                       const Embedding& tokens)
    : tokens_(tokens),
      transform_(make_linear(store,
                             {.name = "head.transform",
                              .outputs = {""},
                              .input_size = config.hidden,
                              .output_size = config.hidden},
                             config.tensorized.head, config.tensorized.plan)),
      norm_(LayerNorm::add(store, "head.norm", config.hidden, config.norm_eps)),
      bias_(store.add({.name = "head.bias",
                       .role = ParameterRole::dense,
                       .shape = {config.vocabulary},
                       .decays = false,
                       .initializer = {}})) {}

void MaskedLanguageHead::run_loss(const Step& step, const Tensor& hidden, bool gradient,
                                  const Tensor& dhidden) const {
  const Context& context = step.context;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const DType dtype = hidden.dtype();
  const std::int64_t rows = step.batch.capacity.masked, width = hidden.dim(1);
  const Tensor masked = arena.saved({rows, width}, dtype);
  run(context, GatherRows{.x = hidden,
                          .indices = step.batch.masked_positions,
                          .count = step.batch.masked_count(),
                          .y = masked});
  const Linear::Saved transformed = transform_->forward(context, masked, Activation::gelu, true);
  const Tensor normed = arena.saved({rows, width}, dtype), mean = arena.saved({rows}, dtype),
               rstd = arena.saved({rows}, dtype);
  run(context, LayerNormForward{.x = transformed.output(),
                                .gamma = step.store.value(norm_.gamma),
                                .beta = step.store.value(norm_.beta),
                                .eps = norm_.eps,
                                .y = normed,
                                .mean = mean,
                                .rstd = rstd});
  const Tensor g = gradient ? arena.saved({rows, width}, dtype) : Tensor();
  tokens_.masked_cross_entropy(context, step.batch,
                               {.h = normed,
                                .bias = step.store.value(bias_),
                                .dbias = gradient ? step.store.gradient(bias_) : Tensor(),
                                .gradient = gradient,
                                .dh = g,
                                .results = step.results});
  if (gradient) {
    run(context, LayerNormBackward{.x = transformed.output(),
                                   .gamma = step.store.value(norm_.gamma),
                                   .mean = mean,
                                   .rstd = rstd,
                                   .dy = g,
                                   .dx = g,
                                   .accumulate_dx = false,
                                   .dgamma = step.store.gradient(norm_.gamma),
                                   .dbeta = step.store.gradient(norm_.beta)});
    ArenaScope scope(arena);
    const Tensor dmasked = scope.tensor({rows, width}, dtype);
    transform_->backward(context, transformed, {g}, dmasked, false);
    run(context, ScatterRows{.dy = dmasked,
                             .indices = step.batch.masked_positions,
                             .count = step.batch.masked_count(),
                             .dx = dhidden});
  }
  arena.release(mark);
}

SequenceHead::SequenceHead(ParameterStore& store, const EncoderConfig& config)
    : kind_(config.head),
      outputs_(config.sequence_outputs()),
      dropout_(config.dropout),
      pooler_(make_linear(
          store,
          {.name = "head.pooler", .outputs = {""}, .input_size = config.hidden, .output_size = config.hidden},
          config.tensorized.head, config.tensorized.plan)),
      classifier_(make_linear(store,
                              {.name = "head.classifier",
                               .outputs = {""},
                               .input_size = config.hidden,
                               .output_size = config.sequence_outputs()},
                              std::nullopt, PlanKind::automatic)) {}

namespace {

struct Classified {
  Tensor first;  // (S, hidden)
  Linear::Saved pooled, logits;
};

Classified classify(const Step& step, const Tensor& hidden, const Linear& pooler, const Linear& classifier,
                    const DropoutSpec& dropout) {
  const Context& context = step.context;
  const std::int64_t sequences = step.batch.capacity.sequences, width = hidden.dim(1);
  Classified out;
  out.first = context.arena.saved({sequences, width}, hidden.dtype());
  run(context, GatherRows{.x = hidden,
                          .indices = step.batch.sequence_offsets,
                          .count = step.batch.sequence_count(),
                          .y = out.first});
  out.pooled = pooler.forward(context, out.first, Activation::tanh, true);
  Tensor dropped = out.pooled.output();
  if (dropout.active()) {  // tanh's backward needs its value as it was
    dropped = context.arena.saved({sequences, width}, hidden.dtype());
    run(context,
        Dropout{.x = out.pooled.output(), .dropout = dropout, .step_inputs = step.inputs, .y = dropped});
  }
  out.logits = classifier.forward(context, dropped, Activation::none, true);
  return out;
}

}  // namespace

void SequenceHead::run_loss(const Step& step, const Tensor& hidden, bool gradient,
                            const Tensor& dhidden) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const std::int64_t sequences = step.batch.capacity.sequences, width = hidden.dim(1);
  const DropoutSpec dropout = step.dropout(dropout_, dropout_site::pooler);
  const Classified out = classify(step, hidden, *pooler_, *classifier_, dropout);
  const Tensor logits = out.logits.output();
  if (kind_ == HeadKind::classification)
    run(context, SoftmaxCrossEntropy{.logits = logits.reshape({1, sequences, outputs_}),
                                     .bias = {},
                                     .dbias = {},
                                     .targets = step.batch.labels,
                                     .count = step.batch.sequence_count(),
                                     .row_begin = 0,
                                     .classes = outputs_,
                                     .gradient = gradient,
                                     .results = step.results});
  else
    run(context, SquaredError{.predictions = logits,
                              .scores = step.batch.scores,
                              .count = step.batch.sequence_count(),
                              .gradient = gradient,
                              .results = step.results});
  if (gradient) {
    ArenaScope scope(context.arena);
    const Tensor g = scope.tensor({sequences, width}, hidden.dtype());
    const Tensor dfirst = scope.tensor({sequences, width}, hidden.dtype());
    classifier_->backward(context, out.logits, {logits}, g, false);
    if (dropout.active())
      run(context, Dropout{.x = g, .dropout = dropout, .step_inputs = step.inputs, .y = g});
    pooler_->backward(context, out.pooled, {g}, dfirst, false);
    run(context, ScatterRows{.dy = dfirst,
                             .indices = step.batch.sequence_offsets,
                             .count = step.batch.sequence_count(),
                             .dx = dhidden});
  }
  context.arena.release(mark);
}

void SequenceHead::predict(const Step& step, const Tensor& hidden, const Tensor& y) const {
  const std::size_t mark = step.context.arena.mark();
  const Classified out = classify(step, hidden, *pooler_, *classifier_, {});
  run(step.context, Fill{.x = y, .value = 0});
  run(step.context, Add{.x = out.logits.output(), .y = y});
  step.context.arena.release(mark);
}

}  // namespace comera
