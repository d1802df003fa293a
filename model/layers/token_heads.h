#pragma once

#include "model/layers/head.h"

namespace comera {

// Token classification: logits = W dropout(h) + b of the labelled tokens, which are the batch's masked
// positions, and the mean cross-entropy over them (Devlin et al., 2019). The first piece of a word has its
// label.
class TokenHead final : public TokenwiseHead {
 public:
  TokenHead(ParameterStore& store, const EncoderConfig& config);
  std::vector<Linear*> linears() const override { return {classifier_.get()}; }
  std::optional<RowSubset> reads(const PackedBatch& batch) const override;
  MergedFactors merge(const EncoderStep& step, Merging& merging) const override;
  void logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const override;

 private:
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;

  double dropout_;
  DistillationConfig distillation_;
  std::unique_ptr<Linear> classifier_;
};

// Extractive question answering: two logits of each token, W h + b, and the cross-entropy of the first and of
// the last token of the answer among all tokens of its sequence (Devlin et al., 2019). The batch's masked
// targets are these two positions of each sequence in turn; it has slots.
class SpanHead final : public TokenwiseHead {
 public:
  SpanHead(ParameterStore& store, const EncoderConfig& config);
  std::vector<Linear*> linears() const override { return {spans_.get()}; }
  std::optional<RowSubset> reads(const PackedBatch& /*batch*/) const override { return {}; }
  MergedFactors merge(const EncoderStep& step, Merging& merging) const override;
  void logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const override;

 private:
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;
  // table (longest S, 2): the logits of token p of sequence s in row p S + s; those of no token are so low
  // that they have no share of a softmax.
  void lay_out(const EncoderStep& step, const Tensor& logits, const Tensor& table) const;

  std::unique_ptr<Linear> spans_;
};

// Replaced-token detection: one logit of each token, w gelu(W h + b) + c, and the binary cross-entropy of
// whether it has been replaced (Clark et al., 2020). The mean over the tokens, times GeneratorConfig::weight,
// is added to the generator's mean over the masked positions, whose number stays that of the targets.
class ReplacedTokenHead final : public Head {
 public:
  ReplacedTokenHead(ParameterStore& store, const EncoderConfig& config);
  std::vector<Linear*> linears() const override { return {transform_.get(), detection_.get()}; }
  std::optional<RowSubset> reads(const PackedBatch& /*batch*/) const override { return {}; }
  MergedFactors merge(const EncoderStep& step, Merging& merging) const override;

 private:
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;

  double weight_;
  Activation activation_;
  std::unique_ptr<Linear> transform_, detection_;
};

}  // namespace comera
