#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/layers/contrastive_head.h"
#include "model/layers/embedding_block.h"
#include "model/layers/encoder_block.h"
#include "model/layers/head.h"
#include "model/layers/positions.h"
#include "model/layers/teacher_losses.h"
#include "model/layers/token_heads.h"
#include "model/merged_encoder.h"

namespace comera {

// The layers of an encoder with its head, on the parameters of a store that it does not own. A model is one
// of them, or with a generator two on one embedding (model/model.h).
class EncoderNetwork {
 public:
  // Registers the parameters: those of the embedding, of each block and of the head in blocks of the store
  // (ParameterStore::begin_block). tables: the network whose embedding tables it uses, too, which must
  // outlive it; then all its parameters belong to the store's present block. The configuration must be valid.
  EncoderNetwork(ParameterStore& store, const EncoderConfig& config, Allocator& allocator,
                 const EncoderNetwork* tables = nullptr);

  const EncoderConfig& config() const { return config_; }

  // Called with the number of a block whose gradients are complete: 0 is the embedding.
  using BlockReady = std::function<void(std::size_t block)>;
  // One micro-batch: forward, loss and, with `gradient`, backward. Adds gradients of the summed loss to the
  // store's; adds loss, targets and hits to step.results. ready: null if gradients may be completed together.
  void run_micro_batch(const EncoderStep& step, bool gradient, const BlockReady& ready) const;

  // Tensors derived from the parameters alone, for the methods below, which need them as step.merged.
  MergedEncoder prepare(const EncoderStep& step, const std::optional<RowSubset>& read) const;
  // As in Model.
  // states: with all rows. Error if the last block's attention does not form the queries that are asked for.
  Tensor encode(const EncoderStep& step, const std::optional<RowSubset>& read,
                const InnerStates* states = nullptr) const;
  void predict(const EncoderStep& step, const Tensor& y) const;
  void logits(const EncoderStep& step, const Tensor& y) const;
  void embed(const EncoderStep& step, Pooling pooling, const Tensor& vectors) const;
  void pool(const EncoderStep& step, const Tensor& hidden, Pooling pooling, const Tensor& vectors) const;
  using Visit = std::function<void(const Linear& layer, const Tensor& input, const Tensor& scales)>;
  void visit_inputs(const EncoderStep& step, const Visit& visit) const;

  const Head& head() const { return *head_; }
  // Throws Error if the head is of another kind.
  const SequenceHead& sequence_head() const;
  const TokenwiseHead& tokenwise_head() const;
  const EmbeddingBlock& embedding() const { return *embedding_; }
  const std::vector<std::unique_ptr<EncoderBlock>>& blocks() const { return blocks_; }
  // All linear layers in forward order.
  std::vector<Linear*> layers() const;
  // The rows that a block computes; null: all. early: those of the last block.
  const RowSubset* rows_of(std::size_t block, const RowSubset* early) const {
    return block + 1 == blocks_.size() ? early : nullptr;
  }
  // Whether the last block computes only the rows that the head reads. Not with adapters, whose heads divide
  // all tokens of a micro-batch.
  bool reads_early() const { return !config_.lte; }

 private:
  void make_head();
  // Contracts the cores. early: the only rows that the last block computes.
  Merging merge(const EncoderStep& step, const RowSubset* early, bool gradients, MergedEncoder& merged) const;
  // Behind the last block: its output, or the rows of it that the head reads, and the head's input.
  struct Last {
    Tensor x;
    NormStatistics statistics;  // of the final norm
    Tensor hidden, dhidden;
    Tensor all;  // (T, hidden): the encoder's output, where it is compared with a teacher's; otherwise empty
  };
  // Queries, keys and values of the last block; empty without its attention.
  TeacherLosses::Relations relations() const;
  // The head's loss, then backward through the head and all blocks. g (T, hidden): gradient of the blocks'
  // input; dhidden: overwritten.
  void backward(const EncoderStep& step, const Last& last, const Tensor& g,
                const std::optional<RowSubset>& read, const Merging& merging, const BlockReady& ready) const;
  // Whether the head has a loss in a step with or without a teacher's answers.
  bool head_learns(bool taught) const;
  // Rows that are gathered already: gathered again, so that those at and beyond the count are 0.
  static RowSubset themselves(const EncoderStep& step, const RowSubset& rows);
  Tensor gathered(const EncoderStep& step, const RowSubset& rows, const Tensor& x) const;
  // rows: those of hidden that are the sequences' vectors; none: their means are.
  void pool(const EncoderStep& step, const Tensor& hidden, const std::optional<RowSubset>& rows,
            const Tensor& vectors) const;
  // Applies the final norm, if there is one.
  Tensor normalize(const EncoderStep& step, const Tensor& x, NormStatistics& statistics) const;

  ParameterStore& store_;
  EncoderConfig config_;
  PositionTables positions_;
  std::unique_ptr<EmbeddingBlock> embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::optional<LayerNorm> final_norm_;  // in a pre-norm encoder
  std::optional<VectorLayer> vector_layer_;
  std::unique_ptr<Head> head_;
  std::optional<TeacherLosses> teacher_losses_;
  const TokenwiseHead* tokenwise_head_ = nullptr;  // head_, if it is one
  const SequenceHead* sequence_head_ = nullptr;    // the same
  // For training steps; members, so that their memory is reused.
  mutable MergedEncoder merged_;
  mutable std::vector<EncoderBlock::Saved> saved_;
};

}  // namespace comera
