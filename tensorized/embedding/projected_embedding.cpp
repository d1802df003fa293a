#include "tensorized/embedding/projected_embedding.h"

#include <cmath>

#include "kernels/ops/elementwise/gather.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "tensorized/decomposition/svd.h"

namespace comera {

namespace {
constexpr const char* stays_as_activations = "the embedding's projection has the type of activations";
}

ProjectedEmbedding::ProjectedEmbedding(ParameterStore& store, const std::string& name,
                                       std::unique_ptr<Embedding> rows, std::int64_t narrow,
                                       std::int64_t width)
    : store_(store),
      rows_(std::move(rows)),
      narrow_(narrow),
      width_(width),
      projection_(
          store.add({.name = name + ".projection",
                     .role = ParameterRole::dense,
                     .shape = {narrow, width},
                     .decays = true,
                     .initializer = {Initializer::Kind::normal, 1 / std::sqrt(static_cast<double>(narrow))},
                     .matrix_rows = narrow})) {}

Tensor ProjectedEmbedding::narrow_rows(const Context& context, ArenaScope& scope, const LookupIds& ids,
                                       const Merged* merged) const {
  const Tensor of_ids = scope.tensor({ids.ids.elements(), narrow_}, store_.compute());
  ArenaScope inner(context.arena);
  const Rows found = rows_->look_up(context, inner, ids, merged);
  const Tensor gathered =
      store_.compute() == found.rows.dtype() ? of_ids : inner.tensor(of_ids.shape(), found.rows.dtype());
  run(context, GatherRows{.x = found.rows, .indices = found.index, .count = ids.count, .y = gathered});
  if (gathered.dtype() != of_ids.dtype()) run(context, Cast{.x = gathered, .y = of_ids});
  return of_ids;
}

Embedding::Rows ProjectedEmbedding::look_up(const Context& context, ArenaScope& scope, const LookupIds& ids,
                                            const Merged* merged) const {
  const std::int64_t tokens = ids.ids.elements();
  const Tensor rows = scope.tensor({tokens, width_}, store_.dtype());
  ArenaScope inner(context.arena);
  const Tensor narrow = narrow_rows(context, inner, ids, merged);
  const ProductPlace place(context.products, "", stays_as_activations);
  run(context, MatrixProduct{.a = narrow,
                             .b = store_.product_value(projection_),
                             .c = rows,
                             .m = tokens,
                             .n = width_,
                             .k = narrow_});
  return {.rows = rows, .index = ids.rows};
}

Tensor ProjectedEmbedding::narrowed(const Context& context, ArenaScope& scope, const Tensor& h) const {
  const Tensor narrow = scope.tensor({h.dim(0), narrow_}, h.dtype());
  run(context, MatrixProduct{.a = h,
                             .b = store_.product_value(projection_),
                             .c = narrow,
                             .m = h.dim(0),
                             .n = narrow_,
                             .k = width_,
                             .transpose_b = true});
  return narrow;
}

void ProjectedEmbedding::add_gradient(const Context& context, const Tensor& narrow,
                                      const Tensor& wide) const {
  run(context, MatrixProduct{.a = narrow,
                             .b = wide,
                             .c = store_.gradient(projection_),
                             .m = narrow_,
                             .n = width_,
                             .k = narrow.dim(0),
                             .transpose_a = true,
                             .accumulate = true});
}

void ProjectedEmbedding::backward(const Context& context, const LookupIds& ids, const Tensor& dy,
                                  const Merged* merged) const {
  ArenaScope scope(context.arena);
  {
    ArenaScope inner(context.arena);
    const Tensor narrow = narrow_rows(context, inner, ids, merged);
    const ProductPlace place(context.products, "", stays_as_activations);
    add_gradient(context, narrow, dy);
  }
  Tensor narrow_dy;
  {
    const ProductPlace place(context.products, "", stays_as_activations);
    narrow_dy = narrowed(context, scope, dy);
  }
  rows_->backward(context, ids, narrow_dy, merged);
}

void ProjectedEmbedding::cross_entropy(const Context& context, const Decoder& decoder) const {
  ArenaScope scope(context.arena);
  Decoder narrow = decoder;
  narrow.h = narrowed(context, scope, decoder.h);
  if (decoder.gradient) narrow.dh = scope.tensor(narrow.h.shape(), narrow.h.dtype());
  rows_->cross_entropy(context, narrow);
  if (!decoder.gradient) return;
  add_gradient(context, narrow.dh, decoder.h);
  run(context, MatrixProduct{.a = narrow.dh,
                             .b = store_.product_value(projection_),
                             .c = decoder.dh,
                             .m = decoder.h.dim(0),
                             .n = width_,
                             .k = narrow_});
}

void ProjectedEmbedding::decode(const Context& context, const Tensor& h, const Tensor& y,
                                const Merged* merged) const {
  ArenaScope scope(context.arena);
  rows_->decode(context, narrowed(context, scope, h), y, merged);
}

std::string ProjectedEmbedding::shape_text() const {
  return fmt::format("{} to {}", rows_->shape_text(), width_);
}

std::vector<double> ProjectedEmbedding::table() const {
  const std::vector<double> rows = rows_->table(),
                            projection = read_tensor(store_.value(projection_), store_.allocator());
  const std::int64_t count = std::ssize(rows) / narrow_;
  std::vector<double> table(static_cast<std::size_t>(count * width_));
  multiply(rows, projection, table, count, width_, narrow_);
  return table;
}

}  // namespace comera
