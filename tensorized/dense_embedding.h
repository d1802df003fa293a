#pragma once

#include "tensorized/embedding.h"

namespace comera {

class DenseEmbedding final : public Embedding {
 public:
  // by_rows: a step changes only the rows that it looks up.
  DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, std::int64_t width,
                 double deviation, bool by_rows = false);

  Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids) const override;
  void backward(const Context& context, const LookupIds& ids, const Tensor& dy) const override;
  void cross_entropy(const Context& context, const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y) const override;
  std::string shape_text() const override;
  std::vector<double> table() const override;

 private:
  const ParameterStore& store_;
  ParameterId table_;
};

}  // namespace comera
