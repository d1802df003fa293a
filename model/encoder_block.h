#pragma once

#include "model/attention.h"
#include "model/feed_forward.h"
#include "model/layer_norm.h"

namespace comera {

// post-norm:  h = norm1(x + dropout(attention(x)));          y = norm2(h + dropout(ffn(h)))
// pre-norm:   h = x + dropout(attention(norm1(x)));          y = h + dropout(ffn(norm2(h)))
class EncoderBlock {
 public:
  // The tables must outlive this.
  EncoderBlock(ParameterStore& store, const EncoderConfig& config, const PositionTables& positions,
               std::int64_t layer);

  struct Saved {
    Tensor x;
    NormStatistics statistics1, statistics2;
    Tensor normed1, normed2;  // (T, hidden): outputs of the norms
    Attention::Saved attention;
    FeedForward::Saved ffn;
    Tensor sum1, sum2;  // (T, hidden): residual sums after attention and feed-forward
    Tensor y;
  };
  Saved forward(const EncoderStep& step, const Tensor& x) const;
  // g (T, hidden): the gradient of y, overwritten by that of x.
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& g) const;

  const Attention& attention() const { return attention_; }
  const FeedForward& ffn() const { return ffn_; }

 private:
  Saved forward_post(const EncoderStep& step, const Tensor& x) const;
  Saved forward_pre(const EncoderStep& step, const Tensor& x) const;
  void backward_post(const EncoderStep& step, const Saved& saved, const Tensor& g) const;
  void backward_pre(const EncoderStep& step, const Saved& saved, const Tensor& g) const;

  NormPlacement placement_;
  double dropout_;
  std::uint32_t attention_site_, ffn_site_;
  Attention attention_;
  LayerNorm norm1_;
  FeedForward ffn_;
  LayerNorm norm2_;
};

}  // namespace comera
