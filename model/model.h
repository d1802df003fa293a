#pragma once

#include <memory>
#include <vector>

#include "model/config.h"
#include "model/layers/embedding_block.h"
#include "model/layers/encoder_block.h"
#include "model/layers/head.h"
#include "model/layers/positions.h"
#include "model/merged_encoder.h"
#include "model/trainable.h"

namespace comera {

// An encoder with its head, and all its parameters.
class Model final : public Trainable {
 public:
  // Throws Error on an impossible configuration. Parameters get memory from the allocator.
  Model(const EncoderConfig& config, Allocator& allocator, bool gradients);

  const EncoderConfig& config() const { return config_; }

  // One micro-batch: forward, loss and, with `gradient`, backward. Gradients of the sum of the losses are
  // added to the store's; loss, targets and hits to step.results.
  void run_micro_batch(const EncoderStep& step, bool gradient) const;
  // What the methods below need of the parameters alone, kept in the arena: for many steps of this capacity
  // and `read`, as their `merged`. A step without makes it for itself.
  MergedEncoder prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const;
  // The encoder's output (T, hidden), or those of its rows (R, hidden), in the arena; the caller releases it.
  // Without what a backward pass needs: of each block only what is made of its cores is kept.
  Tensor encode(const EncoderStep& step, const std::optional<RowSubset>& read = {}) const;
  // What the head says of each sequence, y (S, sequence_outputs): logits of the classes, or one score. Throws
  // Error if the head is a masked-language head.
  void predict(const EncoderStep& step, const Tensor& y) const;
  // What the head says of each masked position, y (masked positions of the capacity, vocabulary) in the type
  // of the parameters: logits; rows beyond the batch's hold anything. Throws Error if the head is not a
  // masked-language head.
  void logits(const EncoderStep& step, const Tensor& y) const;
  // One vector per sequence, vectors (S, hidden); zero beyond the batch's sequences.
  void embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const;

  const Head& head() const { return *head_; }
  const Embedding& token_embedding() const { return embedding_->tokens(); }
  // All linear layers in forward order, for reports.
  std::vector<const Linear*> linears() const;
  // The token embedding first.
  std::vector<RankedLayer> ranked_layers() const override;
  Float8State* float8() const override { return float8_.get(); }
  void merge_adapters(const Context& context) const override;

 private:
  std::vector<Linear*> layers() const;
  void add_float8(const Float8Config& config, Allocator& allocator);

  // What is made of the cores. early: the rows that the last block computes alone.
  Merging merge(const EncoderStep& step, const RowSubset* early, bool gradients, MergedEncoder& merged) const;
  EncoderStep prepared(const EncoderStep& step, const std::optional<RowSubset>& read,
                       MergedEncoder& own) const;
  const RowSubset* rows_of(std::size_t block, const RowSubset* early) const {
    return block + 1 == blocks_.size() ? early : nullptr;
  }
  // All blocks; dhidden is what the head wrote, g (T, hidden) scratch.
  void backward(const EncoderStep& step, const Tensor& dhidden, const Tensor& g, const RowSubset* early,
                const Merging& merging) const;
  void ready(int block) const { gradients_are_ready(block_ranges_[block]); }
  // Whether the last block computes what the head reads alone: heads of adapters share all tokens of a
  // micro-batch.
  bool reads_early() const { return !config_.lte; }
  // Rows that have been gathered already: again, so that those at and beyond their count are 0.
  static RowSubset themselves(const EncoderStep& step, const RowSubset& rows);
  Tensor gathered(const EncoderStep& step, const RowSubset& rows, const Tensor& x) const;
  // By the final norm, if there is one.
  Tensor normalize(const EncoderStep& step, const Tensor& x, NormStatistics& statistics) const;

  EncoderConfig config_;
  PositionTables positions_;
  std::unique_ptr<EmbeddingBlock> embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::optional<LayerNorm> final_norm_;  // of a pre-norm encoder
  std::unique_ptr<Head> head_;
  const MaskedLanguageHead* masked_language_head_ = nullptr;  // head_, if it is one
  const SequenceHead* sequence_head_ = nullptr;               // the same
  std::unique_ptr<Float8State> float8_;
  std::vector<std::vector<ParameterRange>> block_ranges_;
  // Of a training step; they are members so that their memory is used again.
  mutable MergedEncoder merged_;
  mutable std::vector<EncoderBlock::Saved> saved_;
};

}  // namespace comera
