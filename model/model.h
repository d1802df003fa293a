#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/embedding_block.h"
#include "model/encoder_block.h"
#include "model/head.h"
#include "model/positions.h"
#include "tensorized/ranked_layer.h"

namespace comera {

// An encoder with its head, and all its parameters.
class Model {
 public:
  // Throws Error on an impossible configuration. Parameters get memory from the allocator.
  Model(const EncoderConfig& config, Allocator& allocator, bool gradients);
  Model(const Model&) = delete;  // its modules refer to its store
  Model& operator=(const Model&) = delete;

  const EncoderConfig& config() const { return config_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  // One pack: forward, loss and, with `gradient`, backward. Gradients of the sum of the losses are added to
  // the store's; loss, targets and hits to step.results.
  void run_pack(const Step& step, bool gradient) const;
  // The encoder's output (T, hidden), in the arena; the caller releases it. Without what a backward pass
  // needs: memory does not grow with the number of blocks.
  Tensor encode(const Step& step) const;
  // What the head says of each sequence, y (S, sequence_outputs): logits of the classes, or one score. Throws
  // Error if the head is a masked-language head.
  void predict(const Step& step, const Tensor& y) const;
  // What the head says of each masked position, y (masked positions of the capacity, vocabulary) in the type
  // of the parameters: logits; rows beyond the batch's hold anything. Throws Error if the head is not a
  // masked-language head.
  void logits(const Step& step, const Tensor& y) const;
  // One vector per sequence, vectors (S, hidden); zero beyond the batch's sequences.
  void embed(const Step& step, Pooling pooling, const Tensor& vectors) const;

  // Called at the end of each block's backward in every pack, with where its gradients lie in the flat
  // vector: this pack adds nothing more to them.
  using GradientsReady = std::function<void(const std::vector<ParameterRange>&)>;
  void on_gradients_ready(GradientsReady callback) { gradients_ready_ = std::move(callback); }

  // Lets every layer's adapters become part of its weights (tensorized/lte_linear.h); nothing without any.
  // Between an update and the next pack.
  void merge_adapters(const Context& context) const;

  const Head& head() const { return *head_; }
  const Embedding& token_embedding() const { return embedding_->tokens(); }
  // All linear layers in forward order, for reports.
  std::vector<const Linear*> linears() const;
  // Scales of 8-bit operands; null without config().float8.
  Float8State* float8() const { return float8_.get(); }
  // The tensor trains that have ranks, in forward order, the token embedding first: without those that are
  // removed.
  std::vector<RankedLayer> ranked_layers() const;

 private:
  std::vector<Linear*> layers() const;
  void add_float8(const Float8Config& config, Allocator& allocator);
  // Before a pass: weights in the type of activations, rounded anew, and whether scales learn of it.
  void begin_pass(const Context& context, bool training) const;
  void ready(int block) const {
    if (gradients_ready_) gradients_ready_(block_ranges_[block]);
  }

  EncoderConfig config_;
  ParameterStore store_;
  PositionTables positions_;
  std::unique_ptr<EmbeddingBlock> embedding_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::optional<LayerNorm> final_norm_;  // of a pre-norm encoder
  std::unique_ptr<Head> head_;
  std::unique_ptr<Float8State> float8_;
  GradientsReady gradients_ready_;
  std::vector<std::vector<ParameterRange>> block_ranges_;
  mutable std::vector<EncoderBlock::Saved>
      saved_;  // one for each block, reused so that a step allocates nothing
};

}  // namespace comera
