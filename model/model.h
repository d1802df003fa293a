#pragma once

#include <memory>
#include <vector>

#include "model/config.h"
#include "model/layers/contrastive_head.h"
#include "model/layers/embedding_block.h"
#include "model/layers/encoder_block.h"
#include "model/layers/head.h"
#include "model/layers/positions.h"
#include "model/layers/teacher_losses.h"
#include "model/merged_encoder.h"
#include "model/missed_operations.h"
#include "model/trainable.h"

namespace comera {

// An encoder with its head, and all its parameters.
class Model final : public Trainable {
 public:
  // Throws Error on an impossible configuration. Parameters are allocated with the allocator.
  Model(const EncoderConfig& config, Allocator& allocator, bool gradients);

  const EncoderConfig& config() const { return config_; }

  // One micro-batch: forward, loss and, with `gradient`, backward. Adds gradients of the summed loss to the
  // store's; adds loss, targets and hits to step.results.
  void run_micro_batch(const EncoderStep& step, bool gradient) const;
  // Tensors derived from the parameters alone, for the methods below; kept in the arena, and reusable as
  // `merged` by many steps of this capacity and `read`. A step without them computes them itself.
  MergedEncoder prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const;
  // The encoder's output (T, hidden), or the given rows of it (R, hidden), in the arena; the caller releases
  // it. Keeps nothing for a backward pass: of each block, only tensors derived from its cores remain.
  Tensor encode(const EncoderStep& step, const std::optional<RowSubset>& read = {}) const;
  // The head's output for each sequence, y (S, sequence_outputs): logits of the classes, or one score. Throws
  // Error if the head reads tokens.
  void predict(const EncoderStep& step, const Tensor& y) const;
  // The head's logits for each masked position, y (masked positions of the capacity, token_outputs), in the
  // type of the parameters; rows beyond the batch's are undefined. Throws Error if the head reads sequences.
  void logits(const EncoderStep& step, const Tensor& y) const;
  // One vector per sequence, vectors (S, hidden); zero beyond the batch's sequences.
  void embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const;
  // The same of the encoder's whole output, hidden (T, hidden).
  void pool(const EncoderStep& step, const Tensor& hidden, Pooling pooling, const Tensor& vectors) const;

  const Head& head() const { return *head_; }
  const Embedding& token_embedding() const { return embedding_->tokens(); }
  // All linear layers in forward order, for reports.
  std::vector<const Linear*> linears() const;
  std::vector<std::pair<std::string, std::vector<double>>> dense_matrices() const override;
  // The fused operations that layers do not use for such micro-batches on such a GPU, operation by operation.
  std::vector<MissedOperation> missed_operations(const MachineModel& gpu,
                                                 const MicroBatchCapacity& micro_batch) const;
  // The token embedding first.
  std::vector<RankedLayer> ranked_layers() const override;
  Float8State* float8() const override { return float8_.get(); }
  void consolidate(const Context& context) const override;

 private:
  std::vector<Linear*> layers() const;
  void make_head();
  void add_float8(const Float8Config& config, Allocator& allocator);

  // Contracts the cores. early: the only rows that the last block computes.
  Merging merge(const EncoderStep& step, const RowSubset* early, bool gradients, MergedEncoder& merged) const;
  EncoderStep prepared(const EncoderStep& step, const std::optional<RowSubset>& read,
                       MergedEncoder& own) const;
  const RowSubset* rows_of(std::size_t block, const RowSubset* early) const {
    return block + 1 == blocks_.size() ? early : nullptr;
  }
  // Behind the last block: its output, or the rows of it that the head reads, and the head's input.
  struct Last {
    Tensor x;
    NormStatistics statistics;  // of the final norm
    Tensor hidden, dhidden;
    Tensor all;  // (T, hidden): the encoder's output, where it is compared with a teacher's; otherwise empty
  };
  // The head's loss, then backward through the head and all blocks. g (T, hidden): gradient of the blocks'
  // input; dhidden: overwritten.
  void backward(const EncoderStep& step, const Last& last, const Tensor& g,
                const std::optional<RowSubset>& read, const Merging& merging) const;
  void ready(int block) const { gradients_are_ready(block_ranges_[block]); }
  // Whether the last block computes only the rows that the head reads. Not with adapters, whose heads divide
  // all tokens of a micro-batch.
  bool reads_early() const { return !config_.lte; }
  // Whether the head has a loss in a step with or without a teacher's answers.
  bool head_learns(bool taught) const;
  // Rows that are gathered already: gathered again, so that those at and beyond the count are 0.
  static RowSubset themselves(const EncoderStep& step, const RowSubset& rows);
  Tensor gathered(const EncoderStep& step, const RowSubset& rows, const Tensor& x) const;
  // Applies the final norm, if there is one.
  Tensor normalize(const EncoderStep& step, const Tensor& x, NormStatistics& statistics) const;

  EncoderConfig config_;
  PositionTables positions_;
  std::unique_ptr<EmbeddingBlock> embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::optional<LayerNorm> final_norm_;  // in a pre-norm encoder
  std::unique_ptr<Head> head_;
  std::optional<TeacherLosses> teacher_losses_;
  const TokenwiseHead* tokenwise_head_ = nullptr;  // head_, if it is one
  const SequenceHead* sequence_head_ = nullptr;    // the same
  std::unique_ptr<Float8State> float8_;
  std::vector<std::vector<ParameterRange>> block_ranges_;
  // For training steps; members, so that their memory is reused.
  mutable MergedEncoder merged_;
  mutable std::vector<EncoderBlock::Saved> saved_;
};

}  // namespace comera
