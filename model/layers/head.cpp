#include "model/layers/head.h"

#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/clicks.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/dropout.h"
#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/elementwise/sequence.h"
#include "kernels/ops/products/matrix_product.h"
#include "model/merged_encoder.h"
#include "tensorized/fused/merging.h"

namespace comera {

namespace {

// The transform of a masked-language head, or the pooler of a classifier.
std::unique_ptr<Linear> make_first_layer(ParameterStore& store, const EncoderConfig& config,
                                         const std::string& name) {
  const Linear::Spec spec{
      .name = name, .outputs = {""}, .input_size = config.hidden, .output_size = config.head_outputs()};
  return make_linear(store, spec, config.form_of(config.tensorized.head, spec));
}

}  // namespace

SoftTargets soft_targets(const EncoderStep& step, const DistillationConfig& distillation) {
  if (step.teacher == nullptr || distillation.logits == 0) return {};
  return {.teacher = step.teacher->logits,
          .temperature = distillation.temperature,
          .factor = distillation.logits,
          .alone = !distillation.targets};
}

MaskedLanguageHead::MaskedLanguageHead(ParameterStore& store, const EncoderConfig& config,
                                       const Embedding& tokens)
    : tokens_(tokens),
      distillation_(config.distillation),
      transform_(make_first_layer(store, config, config.place.prefix + "head.transform")),
      activation_(config.activation),
      norm_(LayerNorm::add(store, config.place.prefix + "head.norm", config.table_width(), config.norm_eps)),
      bias_(store.add({.name = config.place.prefix + "head.bias",
                       .role = ParameterRole::dense,
                       .shape = {config.vocabulary},
                       .decays = false,
                       .initializer = {}})) {}

std::optional<RowSubset> MaskedLanguageHead::reads(const PackedBatch& batch) const {
  return RowSubset{
      .indices = batch.masked_positions, .count = batch.masked_count(), .most = batch.capacity.masked};
}

MergedFactors MaskedLanguageHead::merge(const EncoderStep& step, Merging& merging) const {
  return transform_->merge(step.context, step.batch.capacity.masked, merging);
}

MaskedLanguageHead::Passed MaskedLanguageHead::evaluate(const EncoderStep& step, const Tensor& hidden) const {
  const Context& context = step.context;
  Arena& arena = context.arena;
  const DType dtype = hidden.dtype(), master = step.store.dtype();
  const std::int64_t rows = hidden.dim(0);
  Passed passed;
  passed.transformed =
      transform_->forward(context, hidden, {.activation = activation_, .merged = step.merged->head});
  passed.normed = arena.saved(passed.transformed.output().shape(), dtype);
  passed.mean = arena.saved({rows}, master);
  passed.rstd = arena.saved({rows}, master);
  run(context, LayerNormForward{.x = passed.transformed.output(),
                                .gamma = step.store.value(norm_.gamma),
                                .beta = step.store.value(norm_.beta),
                                .eps = norm_.eps,
                                .y = passed.normed,
                                .mean = passed.mean,
                                .rstd = passed.rstd});
  return passed;
}

void MaskedLanguageHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient,
                              const Tensor& dhidden, MergedGradients* gradients) const {
  const Context& context = step.context;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const auto [transformed, normed, mean, rstd] = evaluate(step, hidden);
  const Tensor g = gradient ? arena.saved(normed.shape(), hidden.dtype()) : Tensor();
  const ProductPlace decoder(context.products, "head.decoder", "logits decide about the loss");
  tokens_.cross_entropy(context, {.h = normed,
                                  .targets = step.batch.masked_targets,
                                  .count = step.batch.masked_count(),
                                  .bias = step.store.value(bias_),
                                  .dbias = gradient ? step.store.gradient(bias_) : Tensor(),
                                  .soft = soft_targets(step, distillation_),
                                  .draws = step.draws,
                                  .gradient = gradient,
                                  .dh = g,
                                  .results = step.results,
                                  .merged = &step.merged->tokens});
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
    transform_->backward(context, transformed, {g}, dhidden, false, gradients);
    gradients->end_block();
  }
  arena.release(mark);
}

void MaskedLanguageHead::logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  tokens_.decode(context, evaluate(step, hidden).normed, y, &step.merged->tokens);
  run(context, BiasActivationForward{.u = y, .bias = step.store.value(bias_), .y = {}});
  context.arena.release(mark);
}

std::optional<RowSubset> pooled_rows(const PackedBatch& batch, Pooling pooling) {
  if (pooling == Pooling::mean) return {};
  return RowSubset{.indices = batch.sequence_offsets,
                   .count = batch.sequence_count(),
                   .most = batch.capacity.sequences,
                   .of_each_sequence = 1};
}

void pool_by_mean(const EncoderStep& step, const Tensor& hidden, const Tensor& vectors) {
  run(step.context, SequenceMean{.x = hidden,
                                 .offsets = step.batch.sequence_offsets,
                                 .count = step.batch.sequence_count(),
                                 .y = vectors});
}

SequenceHead::SequenceHead(ParameterStore& store, const EncoderConfig& config)
    : kind_(config.head),
      pooling_(config.pooling),
      pairs_(config.pairs),
      outputs_(config.sequence_outputs()),
      distillation_(config.distillation),
      weighted_(config.weighted),
      dropout_(config.dropout),
      pooler_(make_first_layer(store, config, "head.pooler")),
      classifier_(make_linear(store,
                              {.name = "head.classifier",
                               .outputs = {""},
                               .input_size = config.classifier_inputs(),
                               .output_size = config.sequence_outputs(),
                               .scores = true},
                              {}, PlanKind::automatic)),
      classifier_weight_(*store.find("head.classifier.weight")) {}

MergedFactors SequenceHead::merge(const EncoderStep& step, Merging& merging) const {
  return pooler_->merge(step.context, step.batch.capacity.sequences, merging);
}

std::int64_t SequenceHead::examples(const EncoderStep& step) const {
  return step.batch.capacity.sequences / (pairs_ == PairEncoding::separate ? 2 : 1);
}

SequenceHead::Passed SequenceHead::evaluate(const EncoderStep& step, const Tensor& hidden,
                                            const DropoutSpec& dropout) const {
  const Context& context = step.context;
  const std::int64_t width = hidden.dim(1);
  Tensor vectors = hidden;
  if (pooling_ == Pooling::mean) {
    vectors = context.arena.saved({step.batch.capacity.sequences, width}, hidden.dtype());
    pool_by_mean(step, hidden, vectors);
  }
  Passed passed;
  passed.pooled =
      pooler_->forward(context, vectors, {.activation = Activation::tanh, .merged = step.merged->head});
  Tensor features = passed.pooled.output();
  if (pairs_ == PairEncoding::separate) {
    features = context.arena.saved({examples(step), 4 * width}, hidden.dtype());
    run(context,
        PairFeaturesForward{.x = passed.pooled.output(), .count = step.batch.example_count(), .y = features});
  }
  if (dropout.active()) {  // the operations before it need its original value
    const Tensor dropped = context.arena.saved(features.shape(), hidden.dtype());
    run(context, Dropout{.x = features, .dropout = dropout, .step_inputs = step.inputs, .y = dropped});
    features = dropped;
  }
  passed.features = features;
  return passed;
}

void SequenceHead::write_loss(const EncoderStep& step, const Tensor& answer, bool gradient) const {
  const Context& context = step.context;
  if (kind_ == HeadKind::classification) {
    softmax_losses(context,
                   {.logits = answer.reshape({1, examples(step), outputs_}),
                    .bias = {},
                    .dbias = {},
                    .targets = step.batch.labels,
                    .weights = weighted_ ? step.batch.scores : Tensor(),
                    .count = step.batch.example_count(),
                    .row_begin = 0,
                    .classes = outputs_,
                    .gradient = gradient,
                    .results = step.results},
                   soft_targets(step, distillation_));
    return;
  }
  if (kind_ == HeadKind::multi_label) {
    run(context, BinaryCrossEntropy{.logits = answer.reshape({examples(step) * outputs_, 1}),
                                    .labels = step.batch.scores.slice(0, {examples(step) * outputs_}),
                                    .count = step.batch.score_count(),
                                    .gradient = gradient,
                                    .results = step.results});
    return;
  }
  ArenaScope scope(context.arena);
  const SoftTargets soft = soft_targets(step, distillation_);
  const Tensor taught = soft.teacher ? scope.tensor(answer.shape(), answer.dtype()) : Tensor();
  if (soft.teacher) {
    const Tensor to = scope.tensor(answer.shape(), answer.dtype());
    run(context, Cast{.x = answer, .y = taught});
    run(context, Cast{.x = soft.teacher.rows(0, examples(step)), .y = to});
    run(context, SquaredDistance{.x = taught,
                                 .to = to,
                                 .count = step.batch.example_count(),
                                 .targets = step.batch.example_count(),
                                 .counts = soft.alone,
                                 .factor = soft.factor,
                                 .gradient = gradient,
                                 .results = step.results});
  }
  if (!soft.alone)
    run(context, SquaredError{.predictions = answer,
                              .scores = step.batch.scores.slice(0, {examples(step)}),
                              .count = step.batch.example_count(),
                              .gradient = gradient,
                              .results = step.results});
  if (!soft.teacher || !gradient) return;
  if (soft.alone)
    run(context, Cast{.x = taught, .y = answer});
  else
    run(context, Add{.x = taught, .y = answer});
}

void SequenceHead::pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
                        MergedGradients* gradients) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const std::int64_t sequences = step.batch.capacity.sequences, width = hidden.dim(1);
  const DType dtype = hidden.dtype();
  const DropoutSpec dropout = step.dropout(dropout_, dropout_site::pooler);
  const Passed passed = evaluate(step, hidden, dropout);
  const Linear::Saved classified = classifier_->forward(context, passed.features, {});
  const Tensor answer = classified.output();  // (examples, outputs)
  write_loss(step, answer, gradient);
  if (gradient) {
    ArenaScope scope(context.arena);
    const bool separate = pairs_ == PairEncoding::separate;
    const Tensor dfeatures = scope.tensor({examples(step), separate ? 4 * width : width}, dtype);
    const bool mean = pooling_ == Pooling::mean;
    const Tensor dvectors = mean ? scope.tensor({sequences, width}, dtype) : dhidden;
    classifier_->backward(context, classified, {answer}, dfeatures, false);
    if (dropout.active())
      run(context, Dropout{.x = dfeatures, .dropout = dropout, .step_inputs = step.inputs, .y = dfeatures});
    Tensor dpooled = dfeatures;
    if (separate) {
      dpooled = scope.tensor({sequences, width}, dtype);
      run(context, PairFeaturesBackward{.x = passed.pooled.output(),
                                        .count = step.batch.example_count(),
                                        .dy = dfeatures,
                                        .dx = dpooled});
    }
    pooler_->backward(context, passed.pooled, {dpooled}, dvectors, false, gradients);
    gradients->end_block();
    if (mean)
      run(context, SequenceMeanBackward{.dy = dvectors,
                                        .offsets = step.batch.sequence_offsets,
                                        .count = step.batch.sequence_count(),
                                        .dx = dhidden});
  }
  context.arena.release(mark);
}

void SequenceHead::predict(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const Tensor features = evaluate(step, hidden, {}).features;
  const Tensor to = y.slice(0, {examples(step), outputs_});
  run(context, MatrixProduct{.a = features,
                             .b = step.store.product_value(classifier_weight_),
                             .c = to,
                             .m = examples(step),
                             .n = outputs_,
                             .k = features.dim(1),
                             .place = "head.classifier"});
  run(context, BiasActivationForward{.u = to, .bias = step.store.value(classifier_->bias()), .y = {}});
  context.arena.release(mark);
}

void rescale_scores(const ParameterStore& store, const EncoderArchitecture& from,
                    const EncoderArchitecture& to) {
  if (from.score_mean == to.score_mean && from.score_std == to.score_std) return;
  const double factor = from.score_std.value_or(1) / to.score_std.value_or(1);
  const auto change = [&](const char* name, double shift) {
    const auto id = store.find(name);
    COMERA_CHECK(id, "the model has no {}, so it gives no scores", name);
    const Tensor values = store.value(*id);
    std::vector<double> numbers = read_tensor(values, store.allocator());
    for (double& number : numbers) number = factor * number + shift;
    write_tensor(values, numbers, store.allocator());
  };
  change("head.classifier.weight", 0);
  change("head.classifier.bias", to.output_of(from.score_mean.value_or(0)));
}

}  // namespace comera
