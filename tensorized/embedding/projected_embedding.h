#pragma once

#include <memory>

#include "tensorized/embedding/embedding.h"

namespace comera {

// table = L R: the rows L (rows, narrow) of another embedding, and a dense matrix R (narrow, width). Lookups
// and a tied decoder share both, so that the decoder costs narrow instead of width multiplications a logit:
// h tableᵀ = (h Rᵀ) Lᵀ.
class ProjectedEmbedding final : public Embedding {
 public:
  // The parameter R is called `name`.projection. Its entries begin with a variance of 1 / narrow: rows of the
  // table then have the deviation of those of L.
  ProjectedEmbedding(ParameterStore& store, const std::string& name, std::unique_ptr<Embedding> rows,
                     std::int64_t narrow, std::int64_t width);

  Merged merge(const Context& context, bool decodes, bool gradients) const override {
    return rows_->merge(context, decodes, gradients);
  }
  Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
               const Merged* merged) const override;
  void backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                const Merged* merged) const override;
  void cross_entropy(const Context& context, const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y, const Merged* merged) const override;
  std::string shape_text() const override;
  std::vector<double> table() const override;
  const TTMCores* as_tensor_train() const override { return rows_->as_tensor_train(); }
  std::int64_t right_rows() const override { return rows_->right_rows(); }

 private:
  // Rows of L for each id, zero at and beyond the count, in the type of activations.
  Tensor narrow_rows(const Context& context, ArenaScope& scope, const LookupIds& ids,
                     const Merged* merged) const;
  // h Rᵀ.
  Tensor narrowed(const Context& context, ArenaScope& scope, const Tensor& h) const;
  // dR += narrow ᵀ wide, both with a row for each token.
  void add_gradient(const Context& context, const Tensor& narrow, const Tensor& wide) const;

  const ParameterStore& store_;
  std::unique_ptr<Embedding> rows_;
  std::int64_t narrow_, width_;
  ParameterId projection_;
};

}  // namespace comera
