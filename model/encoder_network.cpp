#include "model/encoder_network.h"

#include <algorithm>

#include "kernels/core/check.h"
#include "kernels/ops/elementwise/layer_norm.h"
#include "kernels/ops/elementwise/layout.h"
#include "model/layers/token_heads.h"

namespace comera {

EncoderNetwork::EncoderNetwork(ParameterStore& store, const EncoderConfig& config, Allocator& allocator,
                               const EncoderNetwork* tables)
    : store_(store), config_(config), positions_(store, config, allocator) {
  const auto begin_block = [&] {
    if (tables == nullptr) store.begin_block();
  };
  embedding_ =
      std::make_unique<EmbeddingBlock>(store, config, tables == nullptr ? nullptr : &tables->embedding());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    begin_block();
    blocks_.push_back(std::make_unique<EncoderBlock>(store, config, positions_, layer));
  }
  begin_block();
  if (config.norm == NormPlacement::pre)
    final_norm_ = LayerNorm::add(store, config.place.prefix + "encoder.norm", config.hidden, config.norm_eps);
  make_head();
  if (config.distillation.of_encoder())
    teacher_losses_.emplace(store, config, vector_layer_ ? &*vector_layer_ : nullptr);
  merged_.blocks.resize(config.layers);
  saved_.resize(config.layers);
}

void EncoderNetwork::make_head() {
  if (reads_sequences(config_.head)) {
    auto head = std::make_unique<SequenceHead>(store_, config_);
    sequence_head_ = head.get();
    head_ = std::move(head);
    return;
  }
  if (config_.head == HeadKind::contrastive) {
    if (config_.has_vector_layer()) vector_layer_.emplace(store_, config_);
    head_ = std::make_unique<ContrastiveHead>(config_, vector_layer_ ? &*vector_layer_ : nullptr);
    return;
  }
  if (config_.head == HeadKind::replaced_tokens) {
    head_ = std::make_unique<ReplacedTokenHead>(store_, config_);
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

Tensor EncoderNetwork::normalize(const EncoderStep& step, const Tensor& x, NormStatistics& statistics) const {
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

void EncoderNetwork::run_micro_batch(const EncoderStep& given, bool gradient, const BlockReady& ready) const {
  EncoderStep step = given;
  step.merged = &merged_;
  const Context& context = step.context;
  Arena& arena = context.arena;
  const std::size_t mark = arena.mark();
  const Shape shape{step.batch.capacity.tokens, config_.hidden};
  const Tensor g = gradient ? arena.saved(shape, store_.compute()) : Tensor();

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
    if (compared) {
      teacher_losses_->run(step, all, relations(), false, {}, {});
      for (std::size_t i = 0; i + 1 < blocks_.size(); ++i)
        teacher_losses_->add_layer(step, i, saved_[i].y, false, {});
    }
  } else {
    const Tensor dhidden = read ? arena.saved(hidden.shape(), hidden.dtype()) : g;
    backward(step, {.x = x, .statistics = statistics, .hidden = hidden, .dhidden = dhidden, .all = all}, g,
             read, merging, ready);
    embedding_->backward(step, embedded, g);
    if (ready) ready(0);
  }
  arena.release(mark);
}

Merging EncoderNetwork::merge(const EncoderStep& step, const RowSubset* early, bool gradients,
                              MergedEncoder& merged) const {
  positions_.make(step.context);
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

void EncoderNetwork::backward(const EncoderStep& step, const Last& last, const Tensor& g,
                              const std::optional<RowSubset>& read, const Merging& merging,
                              const BlockReady& ready) const {
  const Context& context = step.context;
  ArenaScope scope(context.arena);
  const bool together = !ready;
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
    // Added to those of the attention, once the backward pass is there.
    TeacherLosses::Relations drelations;
    const TeacherLosses::Relations own = relations();
    if (teacher_losses_->of_relations() && own[0])
      for (Tensor& gradient : drelations) gradient = scope.tensor(own[0].shape(), own[0].dtype());
    teacher_losses_->run(step, last.all, own, true, g, drelations);
    saved_.back().attention.more_gradients = drelations;
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
  // The projection, which belongs to the head's block, may learn from all of them.
  const bool late = compared && teacher_losses_->projects_all_layers();
  if (ready && !late) ready(blocks_.size() + 1);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const RowSubset* rows = rows_of(i, early);
    if (compared && i + 1 < blocks_.size()) teacher_losses_->add_layer(step, i, saved_[i].y, true, g);
    blocks_[i]->backward(step, saved_[i], rows ? dhidden : g, g, rows, gradients);
    if (!together) gradients.flush();
    if (ready) ready(i + 1);
  }
  gradients.flush();
  if (ready && late) ready(blocks_.size() + 1);
}

TeacherLosses::Relations EncoderNetwork::relations() const {
  const Linear::Saved& projections = saved_.back().attention.projections;
  return {projections.u[0], projections.u[1], projections.u[2]};
}

bool EncoderNetwork::head_learns(bool taught) const {
  const DistillationConfig& distillation = config_.distillation;
  if (!distillation.any() || distillation.targets) return true;
  return config_.head != HeadKind::contrastive && (!taught || distillation.logits > 0);
}

RowSubset EncoderNetwork::themselves(const EncoderStep& step, const RowSubset& rows) {
  return {.indices = step.batch.token_rows, .count = rows.count, .most = rows.most};
}

Tensor EncoderNetwork::gathered(const EncoderStep& step, const RowSubset& rows, const Tensor& x) const {
  const Tensor y = step.context.arena.saved({rows.most, config_.hidden}, x.dtype());
  gather(step.context, rows, x, y);
  return y;
}

MergedEncoder EncoderNetwork::prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const {
  MergedEncoder merged;
  merged.blocks.resize(blocks_.size());
  merge(step, read && reads_early() ? &*read : nullptr, false, merged);
  return merged;
}

Tensor EncoderNetwork::encode(const EncoderStep& step, const std::optional<RowSubset>& read,
                              const InnerStates* states) const {
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
      const EncoderBlock::Saved saved = blocks_[i]->forward(step, step.merged->blocks[i], x, rows);
      if (states != nullptr && states->qkv[0] && i + 1 == blocks_.size()) {
        COMERA_CHECK(saved.attention.projections.x, "attention between the factors forms no queries");
        for (int k = 0; k < 3; ++k)
          gather(step.context, all, saved.attention.projections.u[k], states->qkv[k]);
      }
      if (states != nullptr && i < states->layers.size() && states->layers[i])
        gather(step.context, all, saved.y, states->layers[i]);
      return saved.y;
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

const SequenceHead& EncoderNetwork::sequence_head() const {
  COMERA_CHECK(sequence_head_ != nullptr,
               "a model with a head for single tokens makes no predictions for whole sequences");
  return *sequence_head_;
}

const TokenwiseHead& EncoderNetwork::tokenwise_head() const {
  COMERA_CHECK(tokenwise_head_ != nullptr,
               "a model with a head for whole sequences predicts nothing for their tokens");
  return *tokenwise_head_;
}

void EncoderNetwork::predict(const EncoderStep& step, const Tensor& y) const {
  const std::size_t mark = step.context.arena.mark();
  sequence_head().predict(step, encode(step, head_->reads(step.batch)), y);
  step.context.arena.release(mark);
}

void EncoderNetwork::logits(const EncoderStep& step, const Tensor& y) const {
  const std::size_t mark = step.context.arena.mark();
  tokenwise_head().logits(step, encode(step, head_->reads(step.batch)), y);
  step.context.arena.release(mark);
}

void EncoderNetwork::embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const {
  const std::size_t mark = step.context.arena.mark();
  const std::optional<RowSubset> read = pooled_rows(step.batch, pooling);
  const Tensor hidden = encode(step, read);
  pool(step, hidden, read ? std::optional(themselves(step, *read)) : std::nullopt, vectors);
  step.context.arena.release(mark);
}

void EncoderNetwork::pool(const EncoderStep& step, const Tensor& hidden, Pooling pooling,
                          const Tensor& vectors) const {
  pool(step, hidden, pooled_rows(step.batch, pooling), vectors);
}

void EncoderNetwork::pool(const EncoderStep& step, const Tensor& hidden, const std::optional<RowSubset>& rows,
                          const Tensor& vectors) const {
  const Context& context = step.context;
  const std::size_t mark = context.arena.mark();
  const Tensor pooled =
      vector_layer_ ? context.arena.saved({step.batch.capacity.sequences, config_.hidden}, hidden.dtype())
                    : vectors;
  if (rows)
    gather(context, *rows, hidden, pooled);
  else
    pool_by_mean(step, hidden, pooled);
  if (vector_layer_) run(context, Cast{.x = vector_layer_->forward(step, pooled).y, .y = vectors});
  context.arena.release(mark);
}

void EncoderNetwork::visit_inputs(const EncoderStep& step, const Visit& visit) const {
  Arena& arena = step.context.arena;
  const Tensor x = arena.saved({step.batch.capacity.tokens, config_.hidden}, store_.compute());
  const RowSubset all{.indices = step.batch.token_rows,
                      .count = step.batch.token_count(),
                      .most = step.batch.capacity.tokens};
  std::size_t mark = arena.mark();
  gather(step.context, all, embedding_->forward(step).y, x);
  arena.release(mark);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    mark = arena.mark();
    const EncoderBlock& block = *blocks_[i];
    const EncoderBlock::Saved saved = block.forward(step, step.merged->blocks[i], x, nullptr);
    COMERA_CHECK(!saved.attention.between_factors && !saved.ffn.in_one_pass,
                 "layers that are evaluated together have no inputs to visit");
    const bool normalized = config_.norm == NormPlacement::post;
    visit(block.attention().projections(), saved.attention.projections.x, {});
    visit(block.attention().output(), saved.attention.read, normalized ? saved.statistics1.rstd : Tensor());
    visit(block.ffn().up(), saved.ffn.up.x, {});
    visit(block.ffn().down(), saved.ffn.down.x, normalized ? saved.statistics2.rstd : Tensor());
    gather(step.context, all, saved.y, x);
    arena.release(mark);
  }
  NormStatistics statistics;
  const Tensor hidden = normalize(step, x, statistics);
  if (tokenwise_head_ != nullptr)
    for (const Linear* linear : head_->linears()) visit(*linear, hidden, {});
}

std::vector<Linear*> EncoderNetwork::layers() const {
  std::vector<Linear*> list;
  if (Linear* projection = embedding_->projection()) list.push_back(projection);
  for (const auto& block : blocks_)
    for (Linear* linear : {&block->attention().projections(), &block->attention().output(),
                           &block->ffn().up(), &block->ffn().down()})
      list.push_back(linear);
  for (Linear* linear : head_->linears()) list.push_back(linear);
  return list;
}

}  // namespace comera
