#include "tensorized/dense_embedding.h"

#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/matrix_product.h"

namespace comera {

DenseEmbedding::DenseEmbedding(ParameterStore& store, const std::string& name, std::int64_t vocabulary,
                               std::int64_t width, double deviation)
    : store_(store),
      table_(store.add({.name = name + ".weight",
                        .role = ParameterRole::dense,
                        .shape = {vocabulary, width},
                        .decays = true,
                        .initializer = {Initializer::Kind::normal, deviation}})) {}

void DenseEmbedding::forward(const Context& context, const PackedBatch& batch, const Tables& tables,
                             const Tensor& y) const {
  run(context, EmbeddingSum{.rows = store_.value(table_),
                            .index = batch.token_ids,
                            .positions = tables.positions,
                            .position_ids = batch.position_ids,
                            .types = tables.types,
                            .type_ids = batch.type_ids,
                            .y = y});
}

void DenseEmbedding::backward(const Context& context, const PackedBatch& batch, const Tensor& dy) const {
  run(context, SegmentSum{.dy = dy,
                          .order = batch.unique_order,
                          .offsets = batch.unique_offsets,
                          .count = batch.unique_count(),
                          .ids = batch.unique_ids,
                          .out = store_.gradient(table_)});
}

void DenseEmbedding::masked_cross_entropy(const Context& context, const PackedBatch& batch,
                                          const Decoder& decoder) const {
  run(context, DenseMaskedCrossEntropy{.h = decoder.h,
                                       .table = store_.product_value(table_),
                                       .dtable = decoder.gradient ? store_.gradient(table_) : Tensor(),
                                       .bias = decoder.bias,
                                       .dbias = decoder.dbias,
                                       .targets = batch.masked_targets,
                                       .count = batch.masked_count(),
                                       .gradient = decoder.gradient,
                                       .dh = decoder.dh,
                                       .results = decoder.results});
}

void DenseEmbedding::decode(const Context& context, const Tensor& h, const Tensor& y) const {
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

}  // namespace comera
