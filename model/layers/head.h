#pragma once

#include <memory>

#include "kernels/ops/elementwise/cross_entropy.h"
#include "model/config.h"
#include "model/encoder_step.h"
#include "model/layers/embedding_block.h"
#include "model/layers/layer_norm.h"
#include "tensorized/linear/linear.h"
#include "tensorized/linear/row_subset.h"

namespace comera {

// The task head on the encoder: computes the loss of a batch and the gradient of the encoder's output.
// Forward and backward are one pass, so that logits over the vocabulary exist only for a chunk of rows at a
// time.
class Head {
 public:
  virtual ~Head() = default;
  // The rows of the encoder's output that it reads; none: all. Its input `hidden` is either (R, hidden),
  // these rows with zeros at and beyond their count, or (T, hidden).
  virtual std::optional<RowSubset> reads(const PackedBatch& batch) const = 0;
  // Registers its first layer's factors, for MergedEncoder::head.
  virtual MergedFactors merge(const EncoderStep& step, Merging& merging) const = 0;
  // Adds loss, targets and hits to step.results.
  void forward(const EncoderStep& step, const Tensor& hidden) const {
    pass(step, hidden, false, Tensor(), nullptr);
  }
  // The same, and also writes dhidden, shaped as hidden; adds gradients of the head's parameters to the
  // store's. Those of merged factors wait in `gradients`.
  void forward_backward(const EncoderStep& step, const Tensor& hidden, const Tensor& dhidden,
                        MergedGradients& gradients) const {
    pass(step, hidden, true, dhidden, &gradients);
  }
  // Its linear layers.
  virtual std::vector<Linear*> linears() const = 0;

 private:
  virtual void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
                    MergedGradients* gradients) const = 0;
};

// A head with logits for single tokens: those whose positions a batch lists.
class TokenwiseHead : public Head {
 public:
  // y (masked positions of the capacity, token_outputs), in the type of the parameters, for prediction; rows
  // beyond the count are undefined. hidden: what the head reads.
  virtual void logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const = 0;
};

// Masked language modelling: logits = norm(gelu(W h + b)) tableᵀ + bias at masked positions, table tied to
// the token embedding (Devlin et al., 2019). W maps to the table's width (as in ALBERT and ELECTRA).
class MaskedLanguageHead final : public TokenwiseHead {
 public:
  MaskedLanguageHead(ParameterStore& store, const EncoderConfig& config, const Embedding& tokens);
  std::vector<Linear*> linears() const override { return {transform_.get()}; }
  std::optional<RowSubset> reads(const PackedBatch& batch) const override;
  MergedFactors merge(const EncoderStep& step, Merging& merging) const override;

  void logits(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const override;

 private:
  // The decoder's input, as far as the backward pass needs it.
  struct Passed {
    Linear::Saved transformed;
    Tensor normed, mean, rstd;
  };
  Passed evaluate(const EncoderStep& step, const Tensor& hidden) const;
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;

  const Embedding& tokens_;
  DistillationConfig distillation_;
  std::unique_ptr<Linear> transform_;
  Activation activation_;
  LayerNorm norm_;
  ParameterId bias_;
};

// What a head with distributions learns from its teacher's logits; empty without a teacher.
SoftTargets soft_targets(const EncoderStep& step, const DistillationConfig& distillation);

// The rows that form the sequences' vectors; none: all.
std::optional<RowSubset> pooled_rows(const PackedBatch& batch, Pooling pooling);
// The mean of each sequence: vectors (S, hidden) of hidden (T, hidden); zero beyond the batch's sequences.
void pool_by_mean(const EncoderStep& step, const Tensor& hidden, const Tensor& vectors);

// Classification or regression: y = W dropout(p) + b with p = tanh(pooler h), where h is the first token's
// hidden state or the mean of a sequence's. The loss is the cross-entropy of the logits y, or the squared
// error of the one score y (Devlin et al., 2019). For two sequences encoded separately, W reads [p_1, p_2,
// |p_1 - p_2|, p_1 p_2].
class SequenceHead final : public Head {
 public:
  SequenceHead(ParameterStore& store, const EncoderConfig& config);
  std::vector<Linear*> linears() const override { return {pooler_.get(), classifier_.get()}; }
  std::optional<RowSubset> reads(const PackedBatch& batch) const override {
    return pooled_rows(batch, pooling_);
  }
  MergedFactors merge(const EncoderStep& step, Merging& merging) const override;

  // y (at least as many rows as examples, outputs) in the master type, for prediction; rows beyond the count
  // are undefined. Not rounded to the compute type, in which near scores would be equal.
  void predict(const EncoderStep& step, const Tensor& hidden, const Tensor& y) const;

 private:
  HeadKind kind_;
  // What the last layer reads, and the forward pass before it as far as the backward pass needs it.
  struct Passed {
    Linear::Saved pooled;
    Tensor features;
  };
  Passed evaluate(const EncoderStep& step, const Tensor& hidden, const DropoutSpec& dropout) const;
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;
  std::int64_t examples(const EncoderStep& step) const;
  // Of the logits or scores (examples, outputs), which with gradient become their own gradient.
  void write_loss(const EncoderStep& step, const Tensor& answer, bool gradient) const;

  Pooling pooling_;
  PairEncoding pairs_;
  std::int64_t outputs_;
  DistillationConfig distillation_;
  bool weighted_;
  double dropout_;
  std::unique_ptr<Linear> pooler_, classifier_;
  ParameterId classifier_weight_;
};

// Changes the last layer of a regression head that was learned with score_mean and score_std of `from`, so
// that it gives the same scores with those of `to`.
void rescale_scores(const ParameterStore& store, const EncoderArchitecture& from,
                    const EncoderArchitecture& to);

}  // namespace comera
