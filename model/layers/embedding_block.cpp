#include "model/layers/embedding_block.h"

#include "kernels/ops/elementwise/dropout.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/elementwise/layer_norm.h"
#include "model/merged_encoder.h"

namespace comera {

namespace {
constexpr const char* tables_stay_wide = "rows of a table are looked up, not multiplied with tokens";
}

EmbeddingBlock::EmbeddingBlock(ParameterStore& store, const EncoderConfig& config,
                               const EmbeddingBlock* tables)
    : dropout_(config.dropout),
      width_(config.table_width()),
      site_(config.place.dropout_sites + dropout_site::embedding) {
  if (tables == nullptr) {
    add_tables(store, config);
  } else {
    tokens_ = tables->tokens_;
    positions_ = tables->positions_;
    types_ = tables->types_;
    norm_ = tables->norm_;
  }
  if (config.has_narrow_tables())
    projection_ = make_linear(store,
                              {.name = config.place.prefix + "embedding.projection",
                               .outputs = {""},
                               .input_size = width_,
                               .output_size = config.hidden},
                              DenseForm{});
}

void EmbeddingBlock::add_tables(ParameterStore& store, const EncoderConfig& config) {
  tokens_ =
      make_embedding(store, EncoderConfig::embedding_layer, config.vocabulary, width_, config.embedding_std,
                     config.tensorized.embedding_shape(), config.tensorized.lookup);
  const auto table = [&](const char* name, std::int64_t rows) {
    return store.add({.name = name,
                      .role = ParameterRole::dense,
                      .shape = {rows, width_},
                      .decays = true,
                      .initializer = {Initializer::Kind::normal, config.embedding_std}});
  };
  if (config.positions == Positions::learned) positions_ = table("embedding.positions", config.max_positions);
  types_ = table("embedding.types", config.types);
  if (config.norm == NormPlacement::post)
    norm_ = LayerNorm::add(store, "embedding.norm", width_, config.norm_eps);
}

EmbeddingBlock::Saved EmbeddingBlock::forward(const EncoderStep& step) const {
  const std::int64_t tokens = step.batch.capacity.tokens;
  Arena& arena = step.context.arena;
  const DType dtype = step.store.compute(), master = step.store.dtype();
  Saved saved;
  saved.y = arena.saved({tokens, width_}, dtype);
  const Tensor sum = norm_ ? arena.saved({tokens, width_}, dtype) : saved.y;
  const ProductPlace place(step.context.products, EncoderConfig::embedding_layer, tables_stay_wide);
  {
    ArenaScope scope(arena);
    const Embedding::Rows found =
        tokens_->look_up(step.context, scope, step.batch.tokens(), &step.merged->tokens);
    run(step.context, EmbeddingSum{.rows = found.rows,
                                   .index = found.index,
                                   .positions = positions_ ? step.store.value(*positions_) : Tensor(),
                                   .position_ids = step.batch.position_ids,
                                   .types = step.store.value(types_),
                                   .type_ids = step.batch.type_ids,
                                   .y = sum});
  }

  if (norm_) {
    saved.sum = sum;
    saved.statistics = {arena.saved({tokens}, master), arena.saved({tokens}, master)};
    run(step.context, LayerNormForward{.x = sum,
                                       .gamma = step.store.value(norm_->gamma),
                                       .beta = step.store.value(norm_->beta),
                                       .eps = norm_->eps,
                                       .y = saved.y,
                                       .mean = saved.statistics.mean,
                                       .rstd = saved.statistics.rstd});
  }
  const DropoutSpec dropout = step.dropout(dropout_, site_);
  if (dropout.active())
    run(step.context, Dropout{.x = saved.y, .dropout = dropout, .step_inputs = step.inputs, .y = saved.y});
  if (projection_) {
    saved.projected = projection_->forward(step.context, saved.y, {});
    saved.y = saved.projected.output();
  }
  return saved;
}

void EmbeddingBlock::backward(const EncoderStep& step, const Saved& saved, const Tensor& dy) const {
  if (!projection_) return rows_backward(step, saved, dy);
  ArenaScope scope(step.context.arena);
  const Tensor drows = scope.tensor({dy.dim(0), width_}, dy.dtype());
  projection_->backward(step.context, saved.projected, {dy}, drows, false);
  rows_backward(step, saved, drows);
}

void EmbeddingBlock::rows_backward(const EncoderStep& step, const Saved& saved, const Tensor& dy) const {
  const DropoutSpec dropout = step.dropout(dropout_, site_);
  if (dropout.active())
    run(step.context, Dropout{.x = dy, .dropout = dropout, .step_inputs = step.inputs, .y = dy});
  if (norm_)
    run(step.context, LayerNormBackward{.x = saved.sum,
                                        .gamma = step.store.value(norm_->gamma),
                                        .mean = saved.statistics.mean,
                                        .rstd = saved.statistics.rstd,
                                        .dy = dy,
                                        .dx = dy,
                                        .accumulate_dx = false,
                                        .dgamma = step.store.gradient(norm_->gamma),
                                        .dbeta = step.store.gradient(norm_->beta)});
  if (positions_)
    run(step.context, TableGradient{.dy = dy,
                                    .ids = step.batch.position_ids,
                                    .count = step.batch.token_count(),
                                    .dtable = step.store.gradient(*positions_)});
  run(step.context, TableGradient{.dy = dy,
                                  .ids = step.batch.type_ids,
                                  .count = step.batch.token_count(),
                                  .dtable = step.store.gradient(types_)});
  const ProductPlace place(step.context.products, EncoderConfig::embedding_layer, tables_stay_wide);
  tokens_->backward(step.context, step.batch.tokens(), dy, &step.merged->tokens);
}

}  // namespace comera
