#pragma once

#include <memory>
#include <optional>

#include "model/config.h"
#include "model/encoder_step.h"
#include "tensorized/fused/tt_feed_forward.h"
#include "tensorized/linear/linear.h"

namespace comera {

// down(activation(up(x))), up to down's bias, which belongs to the block. Two tensor trains are evaluated in
// one pass (tensorized/fused/tt_feed_forward.h). Without down (Linear::removed) nothing is computed; without
// up every token gets the same, which is computed once.
class FeedForward {
 public:
  FeedForward(ParameterStore& store, const EncoderConfig& config, std::int64_t layer);

  struct Saved {
    Linear::Saved up, down;                           // of a single row if up is removed
    std::optional<TTFeedForward::Saved> in_one_pass;  // replaces both
    Tensor y;                                         // (T, hidden)
  };
  // Tensors derived from its cores before the pass, if it is evaluated in one pass over this many tokens.
  using Merged = std::optional<TTFeedForward::Merged>;
  Merged merge(const EncoderStep& step, std::int64_t tokens, Merging& merging) const;
  Saved forward(const EncoderStep& step, const Merged& merged, const Tensor& x) const;
  // Overwrites dy; writes dx (T, hidden), or adds to it.
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                bool accumulate_dx, MergedGradients& gradients) const;

  // Why it is not evaluated in one pass over `tokens`; nothing if it is.
  std::optional<std::string> why_not_in_one_pass(const MachineModel& machine, std::int64_t tokens) const;
  // Why a GPU stores the inner tensor; nothing if it is in registers only.
  std::optional<std::string> why_inner_is_stored(const MachineModel& machine, std::int64_t tokens) const;

  Linear& up() const { return *up_; }
  Linear& down() const { return *down_; }

 private:
  std::int64_t ffn_;
  Activation activation_;
  std::unique_ptr<Linear> up_, down_;
  const char* never_ = nullptr;  // why it is never evaluated in one pass; null: it may be
  std::optional<TTFeedForward> in_one_pass_;
};

}  // namespace comera
