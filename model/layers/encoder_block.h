#pragma once

#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/layer_norm.h"

namespace comera {

// post-norm:  h = norm1(x + dropout(attention(x)));          y = norm2(h + dropout(ffn(h)))
// pre-norm:   h = x + dropout(attention(norm1(x)));          y = h + dropout(ffn(norm2(h)))
class EncoderBlock {
 public:
  // The tables must outlive this object.
  EncoderBlock(ParameterStore& store, const EncoderConfig& config, const PositionTables& positions,
               std::int64_t layer);

  // R rows: all T, or those of the list given to forward.
  struct Saved {
    Tensor x;  // (T, hidden)
    NormStatistics statistics1, statistics2;
    // Outputs of the norms, (R, hidden); (T, hidden) if the norm precedes attention.
    Tensor normed1, normed2;
    Attention::Saved attention;
    FeedForward::Saved ffn;
    Tensor sum1, sum2;  // (R, hidden): residual sums after attention and feed-forward
    Tensor y;           // (R, hidden)
  };
  // Tensors derived from the cores of its layers before the pass.
  struct Merged {
    Attention::Merged attention;
    FeedForward::Merged ffn;
  };
  Merged merge(const EncoderStep& step, const RowSubset* rows, Merging& merging) const;
  // rows: the R rows of y that later operations read. Everything after the attended values is computed for
  // these rows alone; null: all rows. Dropout indices are those of (R, hidden).
  Saved forward(const EncoderStep& step, const Merged& merged, const Tensor& x, const RowSubset* rows) const;
  // Overwrites dy (R, hidden) and writes dx (T, hidden); both are one tensor if there is no list.
  void backward(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                const RowSubset* rows, MergedGradients& gradients) const;

  const Attention& attention() const { return attention_; }
  const FeedForward& ffn() const { return ffn_; }

 private:
  Saved forward_post(const EncoderStep& step, const Merged& merged, const Tensor& x,
                     const RowSubset* rows) const;
  Saved forward_pre(const EncoderStep& step, const Merged& merged, const Tensor& x,
                    const RowSubset* rows) const;
  void backward_post(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                     const RowSubset* rows, MergedGradients& gradients) const;
  void backward_pre(const EncoderStep& step, const Saved& saved, const Tensor& dy, const Tensor& dx,
                    const RowSubset* rows, MergedGradients& gradients) const;

  NormPlacement placement_;
  double dropout_;
  std::uint32_t attention_site_, ffn_site_;
  Attention attention_;
  LayerNorm norm1_;
  FeedForward ffn_;
  LayerNorm norm2_;
};

}  // namespace comera
