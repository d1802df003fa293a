#include "tensorized/embedding/dense_embedding.h"

#include "kernels/ops/elementwise/cross_entropy.h"
#include "kernels/ops/elementwise/embedding.h"
#include "kernels/ops/optimizers/optimizer.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

DenseEmbedding::DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                               std::int64_t width, double deviation, const Training& training)
    : store_(store),
      table_(store.add({.name = name + ".weight",
                        .role = ParameterRole::dense,
                        .shape = {vocabulary, width},
                        .decays = true,
                        .initializer = {Initializer::Kind::normal, deviation},
                        .embedding = training.own_rate,
                        .by_rows = training.by_rows})) {}

Embedding::Rows DenseEmbedding::look_up(const Context& /*context*/, ArenaScope& /*scope*/,
                                        const LookupIds& ids, const Merged* /*merged*/) const {
  return {.rows = store_.value(table_), .index = ids.ids};
}

void DenseEmbedding::backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                              const Merged* /*merged*/) const {
  run(context, SegmentSum{.dy = dy,
                          .order = ids.unique_order,
                          .offsets = ids.unique_offsets,
                          .count = ids.unique_count,
                          .ids = ids.unique_ids,
                          .out = store_.gradient(table_)});
  if (store_.info(table_).by_rows)
    run(context, TouchRows{.ids = ids.unique_ids,
                           .count = ids.unique_count,
                           .marks = store_.marks(table_),
                           .parameters = store_.dtype()});
}

void DenseEmbedding::cross_entropy(const Context& context, const Decoder& decoder) const {
  run(context, DenseMaskedCrossEntropy{.h = decoder.h,
                                       .table = store_.product_value(table_),
                                       .dtable = decoder.gradient ? store_.gradient(table_) : Tensor(),
                                       .bias = decoder.bias,
                                       .dbias = decoder.dbias,
                                       .targets = decoder.targets,
                                       .count = decoder.count,
                                       .soft = decoder.soft,
                                       .draws = decoder.draws,
                                       .gradient = decoder.gradient,
                                       .dh = decoder.dh,
                                       .results = decoder.results});
}

void DenseEmbedding::decode(const Context& context, const Tensor& h, const Tensor& y,
                            const Merged* /*merged*/) const {
  run(context, MatrixProduct{.a = h,
                             .b = store_.product_value(table_),
                             .c = y,
                             .m = h.dim(0),
                             .n = y.dim(1),
                             .k = h.dim(1),
                             .transpose_b = true});
}

std::string DenseEmbedding::shape_text() const {
  const Shape shape = store_.info(table_).shape;
  return fmt::format("dense {} x {}", shape[0], shape[1]);
}

std::vector<double> DenseEmbedding::table() const {
  return read_tensor(store_.value(table_), store_.allocator());
}

}  // namespace comera
