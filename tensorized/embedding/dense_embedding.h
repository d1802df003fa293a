#pragma once

#include "tensorized/embedding/embedding.h"

namespace comera {

class DenseEmbedding final : public Embedding {
 public:
  struct Training {
    bool by_rows = false;   // a step updates only the rows that it looks up
    bool own_rate = false;  // uses the embedding's learning rate instead of the general one
  };
  DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, std::int64_t width,
                 double deviation)
      : DenseEmbedding(store, name, vocabulary, width, deviation, Training()) {}
  DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary, std::int64_t width,
                 double deviation, const Training& training);

  Rows look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
               const Merged* merged) const override;
  void backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                const Merged* merged) const override;
  void cross_entropy(const Context& context, const Decoder& decoder) const override;
  void decode(const Context& context, const Tensor& h, const Tensor& y, const Merged* merged) const override;
  std::string shape_text() const override;
  std::vector<double> table() const override;

 private:
  const ParameterStore& store_;
  ParameterId table_;
};

}  // namespace comera
