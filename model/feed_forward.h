#pragma once

#include <memory>

#include "model/config.h"
#include "model/step.h"
#include "tensorized/linear.h"

namespace comera {

// down(gelu(up(x))), up to down's bias, which belongs to the block.
class FeedForward {
 public:
  FeedForward(ParameterStore& store, const EncoderConfig& config, std::int64_t layer);

  struct Saved {
    Linear::Saved up, down;
    Tensor y;  // (T, hidden)
  };
  Saved forward(const Step& step, const Tensor& x) const;
  // dy is overwritten; dx (T, hidden) is written, or added to.
  void backward(const Step& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                bool accumulate_dx) const;

  const Linear& up() const { return *up_; }
  const Linear& down() const { return *down_; }

 private:
  std::int64_t ffn_;
  std::unique_ptr<Linear> up_, down_;
};

}  // namespace comera
