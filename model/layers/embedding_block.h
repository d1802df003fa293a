#pragma once

#include <memory>

#include "model/config.h"
#include "model/encoder_step.h"
#include "model/layers/layer_norm.h"
#include "tensorized/embedding/embedding.h"

namespace comera {

// y = dropout(norm(token row + position + type)). A pre-norm encoder has no norm here; only learned positions
// are added here.
class EmbeddingBlock {
 public:
  EmbeddingBlock(ParameterStore& store, const EncoderConfig& config);

  struct Saved {
    Tensor sum;  // (T, hidden), only with a norm
    NormStatistics statistics;
    Tensor y;  // (T, hidden)
  };
  Saved forward(const EncoderStep& step) const;
  // Overwrites dy (T, hidden).
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy) const;

  const Embedding& tokens() const { return *tokens_; }

 private:
  double dropout_;
  std::int64_t hidden_;
  std::unique_ptr<Embedding> tokens_;
  std::optional<ParameterId> positions_;
  ParameterId types_;
  std::optional<LayerNorm> norm_;
};

}  // namespace comera
