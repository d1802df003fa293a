#pragma once

#include <memory>

#include "model/config.h"
#include "model/encoder_step.h"
#include "model/layers/layer_norm.h"
#include "tensorized/embedding/embedding.h"
#include "tensorized/linear/linear.h"

namespace comera {

// y = dropout(norm(token row + position + type)). A pre-norm encoder has no norm here; only learned positions
// are added here. Where the tables are narrower than the encoder (EncoderArchitecture::embedding_size), a
// dense linear layer with a bias follows, the `projection` (Lan et al., 2020; Clark et al., 2020).
class EmbeddingBlock {
 public:
  // tables: the block whose tables and norm it uses, too, instead of own ones; null: none.
  EmbeddingBlock(ParameterStore& store, const EncoderConfig& config, const EmbeddingBlock* tables = nullptr);

  struct Saved {
    Tensor sum;  // (T, table width), only with a norm
    NormStatistics statistics;
    Linear::Saved projected;  // only with a projection
    Tensor y;                 // (T, hidden)
  };
  Saved forward(const EncoderStep& step) const;
  // Overwrites dy (T, hidden).
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy) const;

  const Embedding& tokens() const { return *tokens_; }
  Linear* projection() const { return projection_.get(); }  // null without one

 private:
  void add_tables(ParameterStore& store, const EncoderConfig& config);
  void rows_backward(const EncoderStep& step, const Saved& saved, const Tensor& dy) const;

  double dropout_;
  std::int64_t width_;  // of the tables
  std::uint32_t site_;  // of its dropout
  std::shared_ptr<const Embedding> tokens_;
  std::optional<ParameterId> positions_;
  ParameterId types_ = -1;
  std::optional<LayerNorm> norm_;
  std::unique_ptr<Linear> projection_;
};

}  // namespace comera
