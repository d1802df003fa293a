#pragma once

#include <memory>

#include "model/config.h"
#include "model/encoder_step.h"
#include "tensorized/linear/linear.h"

namespace comera {

// The dense layer behind the pooling of a contrastive head: y = x W + b, or its tanh (Dense of
// sentence-transformers; Feng et al., 2022, LaBSE).
class VectorLayer {
 public:
  static constexpr const char* name = "head.vectors";

  VectorLayer(ParameterStore& store, const EncoderConfig& config);

  struct Saved {
    Linear::Saved linear;
    Tensor y;  // (S, vector_width), zero beyond the batch's sequences
  };
  // x (S, hidden). What backward needs is in the arena.
  Saved forward(const EncoderStep& step, const Tensor& x) const;
  // Writes dx, shaped as x, which may be x itself. Rows of dy beyond the sequences do not count.
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx) const;
  Linear* linear() const { return linear_.get(); }

 private:
  std::unique_ptr<Linear> linear_;
  Activation activation_;
};

}  // namespace comera
