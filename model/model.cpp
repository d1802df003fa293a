#include "model/model.h"

#include <algorithm>

#include "kernels/core/check.h"
#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/ops/elementwise/layout.h"
#include "model/layers/token_heads.h"
#include "tensorized/embedding/ttm_chain.h"

namespace comera {

namespace {
const EncoderConfig& validated(const EncoderConfig& config) {
  config.validate();
  return config;
}
}  // namespace

Model::Model(const EncoderConfig& config, Allocator& allocator, bool gradients)
    : config_(validated(config)), positions_(config, allocator) {
  embedding_ = std::make_unique<EmbeddingBlock>(store_, config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    store_.begin_block();
    blocks_.push_back(std::make_unique<EncoderBlock>(store_, config, positions_, layer));
  }
  store_.begin_block();
  if (config.norm == NormPlacement::pre)
    final_norm_ = LayerNorm::add(store_, "encoder.norm", config.hidden, config.norm_eps);
  make_head();
  if (config.distillation.of_encoder()) teacher_losses_.emplace(store_, config);
  merged_.blocks.resize(config.layers);
  saved_.resize(config.layers);
  store_.allocate(allocator, config.compute, gradients);
  for (int block = 0; block < store_.blocks(); ++block) block_ranges_.push_back(store_.block_ranges(block));
  if (!config.float8) return;
  add_float8(*config.float8, allocator);
}

void Model::make_head() {
  if (reads_sequences(config_.head)) {
    auto head = std::make_unique<SequenceHead>(store_, config_);
    sequence_head_ = head.get();
    head_ = std::move(head);
    return;
  }
  if (config_.head == HeadKind::contrastive) {
    head_ = std::make_unique<ContrastiveHead>(config_);
    return;
  }
  std::unique_ptr<TokenwiseHead> head;
  if (config_.head == HeadKind::mlm)
    head = std::make_unique<MaskedLanguageHead>(store_, config_, embedding_->tokens());
  else if (config_.head == HeadKind::token_classification)
    head = std::make_unique<TokenHead>(store_, config_);
  else
    head = std::make_unique<SpanHead>(store_, config_);
  tokenwise_head_ = head.get();
  head_ = std::move(head);
}

void Model::add_float8(const Float8Config& config, Allocator& allocator) {
  const std::vector<Linear*> linears = layers();
  std::vector<std::string> names;
  for (const Linear* linear : linears) names.push_back(linear->spec().name);
  for (const auto& block : blocks_)
    if (block->attention().between_factors() != nullptr)
      for (const Linear* linear : {&block->attention().projections(), &block->attention().output()})
        names.push_back(linear->spec().name + ".between_halves");
  float8_ = std::make_unique<Float8State>(config, names, allocator);
  int next = 0;
  const auto layer = [&] { return Float8Layer{.state = float8_.get(), .index = next++}; };
  for (Linear* linear : linears) linear->use_float8(layer());
  for (const auto& block : blocks_)
    if (TTAttention* attention = block->attention().between_factors()) {
      const Float8Layer query = layer(), output = layer();
      attention->use_float8({query, output});
    }
}

Tensor Model::normalize(const EncoderStep& step, const Tensor& x, NormStatistics& statistics) const {
  if (!final_norm_) return x;
  Arena& arena = step.context.arena;
  statistics = {arena.saved({x.dim(0)}, store_.dtype()), arena.saved({x.dim(0)}, store_.dtype())};
  const Tensor y = arena.saved(x.shape(), x.dtype());
  run(step.context, LayerNormForward{.x = x,
                                     .gamma = store_.value(final_norm_->gamma),
                                     .beta = store_.value(final_norm_->beta),
                                     .eps = final_norm_->eps,
                                     .y = y,
                                     .mean = statistics.mean,
                                     .rstd = statistics.rstd});
  return y;
}

void Model::run_micro_batch(const EncoderStep& given, bool gradient) const {
  const EncoderStep step(given, given.batch, &merged_, given.teacher);
  const Context& context = step.context;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const Shape shape{step.batch.capacity.tokens, config_.hidden};
  const Tensor g = gradient ? arena.saved(shape, store_.compute()) : Tensor();
  begin_pass(context, gradient);

  const std::optional<RowSubset> read = head_->reads(step.batch);
  const bool compared = teacher_losses_ && step.teacher != nullptr;  // all rows
  const RowSubset* early = read && reads_early() && !compared ? &*read : nullptr;
  const Merging merging = merge(step, early, gradient, merged_);
  const EmbeddingBlock::Saved embedded = embedding_->forward(step);
  Tensor x = embedded.y;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    saved_[i] = blocks_[i]->forward(step, merged_.blocks[i], x, rows_of(i, early));
    x = saved_[i].y;
  }
  if (read && !early && !compared) x = gathered(step, *read, x);
  NormStatistics statistics;
  Tensor hidden = normalize(step, x, statistics);
  const Tensor all = compared ? hidden : Tensor();
  if (read) hidden = gathered(step, compared ? *read : themselves(step, *read), hidden);
  if (!gradient) {
    if (head_learns(step.teacher != nullptr)) head_->forward(step, hidden);
    if (compared) teacher_losses_->run(step, all, false, {});
  } else {
    const Tensor dhidden = read ? arena.saved(hidden.shape(), hidden.dtype()) : g;
    backward(step, {.x = x, .statistics = statistics, .hidden = hidden, .dhidden = dhidden, .all = all}, g,
             read, merging);
    embedding_->backward(step, embedded, g);
    ready(0);
  }
  arena.release(mark);
}

Merging Model::merge(const EncoderStep& step, const RowSubset* early, bool gradients,
                     MergedEncoder& merged) const {
  const ProductPlace place(step.context.products, EncoderConfig::embedding_layer, cores_stay_wide);
  merged.tokens = embedding_->tokens().merge(step.context, config_.head == HeadKind::mlm, gradients);
  return merge_together(step.context, store_.compute(), [&](Merging& merging) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      merged.blocks[i] = blocks_[i]->merge(step, rows_of(i, early), merging);
      merging.end_block();
    }
    merged.head = head_->merge(step, merging);
    merging.end_block();
  });
}

void Model::backward(const EncoderStep& step, const Last& last, const Tensor& g,
                     const std::optional<RowSubset>& read, const Merging& merging) const {
  const Context& context = step.context;
  ArenaScope scope(context.arena);
  const bool together = !announces_gradients();
  const std::int64_t usual = MergedGradients::usual_most(context.backend.device()),
                     most = together ? usual : std::min(usual, merging.most_of_a_block());
  MergedGradients gradients(context, merging, most);
  const bool compared = static_cast<bool>(last.all);
  const Tensor& dhidden = compared ? g : last.dhidden;  // of the final norm's output
  if (merged_.head.a) gradients.take_memory(scope, merging.of_last_block());
  if (head_learns(step.teacher != nullptr)) {
    head_->forward_backward(step, last.hidden, last.dhidden, gradients);
  } else {
    run(context, Fill{.x = last.dhidden, .value = 0});
    gradients.end_block();
  }
  if (compared) {
    if (read) scatter(context, *read, last.dhidden, g);
    teacher_losses_->run(step, last.all, true, g);
  }
  if (!together) gradients.flush();
  gradients.take_memory(scope, merging.gradients_at_once(most));
  if (final_norm_)
    run(context, LayerNormBackward{.x = last.x,
                                   .gamma = store_.value(final_norm_->gamma),
                                   .mean = last.statistics.mean,
                                   .rstd = last.statistics.rstd,
                                   .dy = dhidden,
                                   .dx = dhidden,
                                   .accumulate_dx = false,
                                   .dgamma = store_.gradient(final_norm_->gamma),
                                   .dbeta = store_.gradient(final_norm_->beta)});
  const RowSubset* early = read && reads_early() && !compared ? &*read : nullptr;
  if (read && !early && !compared) scatter(context, *read, dhidden, g);
  ready(static_cast<int>(blocks_.size()) + 1);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const RowSubset* rows = rows_of(i, early);
    blocks_[i]->backward(step, saved_[i], rows ? dhidden : g, g, rows, gradients);
    if (!together) gradients.flush();
    ready(static_cast<int>(i) + 1);
  }
  gradients.flush();
}

bool Model::head_learns(bool taught) const {
  const DistillationConfig& distillation = config_.distillation;
  if (!distillation.any() || distillation.targets) return true;
  return config_.head != HeadKind::contrastive && (!taught || distillation.logits > 0);
}

RowSubset Model::themselves(const EncoderStep& step, const RowSubset& rows) {
  return {.indices = step.batch.token_rows, .count = rows.count, .most = rows.most};
}

Tensor Model::gathered(const EncoderStep& step, const RowSubset& rows, const Tensor& x) const {
  const Tensor y = step.context.arena.saved({rows.most, config_.hidden}, x.dtype());
  gather(step.context, rows, x, y);
  return y;
}

MergedEncoder Model::prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const {
  begin_pass(step.context, false);
  MergedEncoder merged;
  merged.blocks.resize(blocks_.size());
  merge(step, read && reads_early() ? &*read : nullptr, false, merged);
  return merged;
}

EncoderStep Model::prepared(const EncoderStep& step, const std::optional<RowSubset>& read,
                            MergedEncoder& own) const {
  if (step.merged != nullptr) return step;
  own = prepare(step, read);
  return {step, step.batch, &own};
}

Tensor Model::encode(const EncoderStep& given, const std::optional<RowSubset>& read) const {
  MergedEncoder own;
  const EncoderStep step = prepared(given, read, own);
  Arena& arena = step.context.arena;
  const std::int64_t tokens = step.batch.capacity.tokens;
  const Tensor x = arena.saved({tokens, config_.hidden}, store_.compute());
  const Tensor last = read ? arena.saved({read->most, config_.hidden}, store_.compute()) : x;
  const RowSubset* early = read && reads_early() ? &*read : nullptr;
  // A block's other tensors are released once its output has been copied: nothing is kept for a backward
  // pass.
  const RowSubset all{.indices = step.batch.token_rows, .count = step.batch.token_count(), .most = tokens};
  const auto keep = [&](std::size_t mark, const RowSubset& list, const Tensor& y, const Tensor& to) {
    gather(step.context, list, y, to);
    arena.release(mark);
  };
  std::size_t mark = arena.mark();
  keep(mark, all, embedding_->forward(step).y, x);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    mark = arena.mark();
    const auto forward = [&](const RowSubset* rows) {
      return blocks_[i]->forward(step, step.merged->blocks[i], x, rows).y;
    };
    if (!read || i + 1 < blocks_.size())
      keep(mark, all, forward(nullptr), x);
    else if (early != nullptr)
      keep(mark, themselves(step, *read), forward(early), last);
    else
      keep(mark, *read, forward(nullptr), last);
  }
  NormStatistics statistics;
  const Tensor hidden = normalize(step, last, statistics);
  return read && final_norm_ ? gathered(step, themselves(step, *read), hidden) : hidden;
}

void Model::predict(const EncoderStep& given, const Tensor& y) const {
  const SequenceHead* head = sequence_head_;
  COMERA_CHECK(head != nullptr,
               "a model with a head for single tokens makes no predictions for whole sequences");
  const std::size_t mark = given.context.arena.mark();
  const std::optional<RowSubset> read = head->reads(given.batch);
  MergedEncoder own;
  const EncoderStep step = prepared(given, read, own);
  head->predict(step, encode(step, read), y);
  step.context.arena.release(mark);
}

void Model::logits(const EncoderStep& given, const Tensor& y) const {
  const TokenwiseHead* head = tokenwise_head_;
  COMERA_CHECK(head != nullptr, "a model with a head for whole sequences predicts nothing for their tokens");
  const std::size_t mark = given.context.arena.mark();
  const std::optional<RowSubset> read = head->reads(given.batch);
  MergedEncoder own;
  const EncoderStep step = prepared(given, read, own);
  head->logits(step, encode(step, read), y);
  step.context.arena.release(mark);
}

void Model::embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const {
  const std::size_t mark = step.context.arena.mark();
  const std::optional<RowSubset> read = pooled_rows(step.batch, pooling);
  const Tensor hidden = encode(step, read);
  if (read)
    gather(step.context, themselves(step, *read), hidden, vectors);
  else
    pool_by_mean(step, hidden, vectors);
  step.context.arena.release(mark);
}

void Model::pool(const EncoderStep& step, const Tensor& hidden, Pooling pooling,
                 const Tensor& vectors) const {
  if (const std::optional<RowSubset> first = pooled_rows(step.batch, pooling))
    gather(step.context, *first, hidden, vectors);
  else
    pool_by_mean(step, hidden, vectors);
}

void Model::consolidate(const Context& context) const {
  for (const Linear* linear : layers()) linear->consolidate(context);
}

std::vector<Linear*> Model::layers() const {
  std::vector<Linear*> list;
  if (Linear* projection = embedding_->projection()) list.push_back(projection);
  for (const auto& block : blocks_)
    for (Linear* linear : {&block->attention().projections(), &block->attention().output(),
                           &block->ffn().up(), &block->ffn().down()})
      list.push_back(linear);
  for (Linear* linear : head_->linears()) list.push_back(linear);
  return list;
}

std::vector<const Linear*> Model::linears() const {
  const std::vector<Linear*> list = layers();
  return {list.begin(), list.end()};
}

std::vector<std::pair<std::string, std::vector<double>>> Model::dense_matrices() const {
  std::vector<std::pair<std::string, std::vector<double>>> matrices;
  for (const Linear* linear : linears())
    for (int i = 0; i < linear->outputs(); ++i)
      matrices.emplace_back(linear->output_name(i) + ".weight", linear->matrix(i));
  return matrices;
}

namespace {

// The tensor trains of layers whose output only the next one reads.
void add_chain(std::vector<RankedLayer>& list, std::initializer_list<const Linear*> chain, bool keeps_one) {
  const std::size_t first = list.size();
  for (const Linear* linear : chain)
    for (RankedLayer& layer : linear->ranked_layers()) {
      layer.keeps_one = keeps_one;
      list.push_back(std::move(layer));
    }
  for (std::size_t i = first; i + 1 < list.size(); ++i)
    if (!list[i + 1].has_diagonal) list[i].needs = static_cast<int>(i) + 1;
}

}  // namespace

std::vector<RankedLayer> Model::ranked_layers() const {
  std::vector<RankedLayer> list;
  const TTMCores* table = token_embedding().as_tensor_train();
  if (table != nullptr && !table->gates.empty())
    list.push_back({.name = EncoderConfig::embedding_layer,
                    .cores = table->cores,
                    .gates = table->gates,
                    .keeps_one = true});
  for (const auto& block : blocks_) {
    add_chain(list, {&block->attention().projections(), &block->attention().output()}, false);
    add_chain(list, {&block->ffn().up(), &block->ffn().down()}, false);
  }
  for (const Linear* linear : head_->linears()) add_chain(list, {linear}, true);
  return list;
}

}  // namespace comera
