#pragma once

#include "tensorized/embedding.h"

namespace comera {

class DenseEmbedding final : public Embedding {
 public:
  DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, std::int64_t width,
                 double deviation);

  void forward(const Context& context, const PackedBatch& batch, const Tables& tables,
               const Tensor& y) const override;
  void backward(const Context& context, const PackedBatch& batch, const Tensor& dy) const override;
  void masked_cross_entropy(const Context& context, const PackedBatch& batch,
                            const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y) const override;
  std::string shape_text() const override;

 private:
  const ParameterStore& store_;
  ParameterId table_;
};

}  // namespace comera
