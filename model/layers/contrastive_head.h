#pragma once

#include "model/layers/head.h"
#include "model/layers/vector_layer.h"

namespace comera {

// Contrastive learning with in-batch negatives (InfoNCE: van den Oord et al., 2018; SimCSE: Gao et al., 2021;
// MultipleNegativesRankingLoss of sentence-transformers). An example is k consecutive sequences: a query, its
// document and, if k = 3, a hard negative. With the pooled sequences scaled to unit length,
//   z[e, j] = cos(query e, document j) / temperature + scores[e, j]
// where j runs over the documents of all examples of the micro-batch, and then over their hard negatives. The
// loss of an example is the cross-entropy of z[e] with the target e. PackedBatch::scores, one row of
// documents for each example, is 0 for candidates, and so low that their share vanishes for the others. If it
// is symmetric, the loss is also that of the columns, with twice as many targets. It has no parameters but
// those of the layer behind its pooling, if there is one.
class ContrastiveHead final : public Head {
 public:
  // layer: behind the pooling, or null; it must outlive this.
  explicit ContrastiveHead(const EncoderConfig& config, const VectorLayer* layer = nullptr)
      : pooling_(config.pooling), contrastive_(config.contrastive), layer_(layer) {}
  std::vector<Linear*> linears() const override {
    return layer_ ? std::vector{layer_->linear()} : std::vector<Linear*>();
  }
  std::optional<RowSubset> reads(const PackedBatch& batch) const override {
    return pooled_rows(batch, pooling_);
  }
  MergedFactors merge(const EncoderStep& /*step*/, Merging& /*merging*/) const override { return {}; }

 private:
  void pass(const EncoderStep& step, const Tensor& hidden, bool gradient, const Tensor& dhidden,
            MergedGradients* gradients) const override;
  // logits (examples, documents)
  void write_logits(const EncoderStep& step, const Tensor& unit, const Tensor& logits) const;
  void write_loss(const EncoderStep& step, const Tensor& logits, bool gradient) const;
  // The gradient of the unit vectors.
  void write_dunit(const Context& context, const Tensor& unit, const Tensor& dlogits,
                   const Tensor& dunit) const;

  Pooling pooling_;
  ContrastiveConfig contrastive_;
  const VectorLayer* layer_;
};

}  // namespace comera
