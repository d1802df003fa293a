#include "tensorized/embedding/ttm_chain.h"

#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/scale_columns.h"
#include "tensorized/decomposition/tt_chain.h"

namespace comera {

TTMCores TTMCores::add(ParameterStore& store, const std::string& name, const TTMShape& shape,
                       double deviation) {
  TTMCores train{.shape = shape, .cores = {}, .gates = {}};
  const int order = shape.order();
  COMERA_CHECK(order <= max_ttm_cores, "{}: {} cores, at most {} are supported", name, order, max_ttm_cores);
  for (int k = 0; k < order; ++k) {
    const double entry = std::pow(deviation, 1.0 / order) / std::sqrt(static_cast<double>(shape.rank(k + 1)));
    train.cores.push_back(
        store.add({.name = fmt::format("{}.core.{}", name, k),
                   .role = ParameterRole::core,
                   .shape = {shape.rank(k), shape.row_modes[k], shape.column_modes[k], shape.rank(k + 1)},
                   .decays = true,
                   .initializer = {Initializer::Kind::normal, entry},
                   .embedding = true}));
    if (k + 1 < order)
      train.gates.push_back(store.add({.name = fmt::format("{}.gate.{}", name, k),
                                       .role = ParameterRole::gate,
                                       .shape = {shape.rank(k + 1)},
                                       .decays = false,
                                       .initializer = {Initializer::Kind::constant, 1}}));
  }
  return train;
}

std::int64_t TTMCores::left_columns() const {
  std::int64_t columns = 1;
  for (int k = 0; k < shape.left_cores(); ++k) columns *= shape.column_modes[k];
  return columns;
}

// The steps of the contraction: the left factor grows to the right, the right factor to the left, and after
// each product a swap moves rows before columns.
MergedTTM merge_ttm(const Context& context, const ParameterStore& store, const TTMCores& train) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  MergedTTM merged;
  auto& [left_factor, right_factor, scaled, partial] = merged;
  const TTMShape& shape = train.shape;
  const int order = shape.order(), left = shape.left_cores();
  const DType dtype = store.dtype();
  const auto keep = [&](Shape of) { return context.arena.saved(of, dtype); };
  for (int k = 0; k < order; ++k) {
    scaled[k] = store.value(train.cores[k]);
    if (k + 1 == order) break;
    const std::int64_t rank = shape.rank(k + 1);
    const Tensor product = keep(scaled[k].shape());
    run(context, ScaleColumnsForward{.x = scaled[k].reshape({scaled[k].elements() / rank, rank}),
                                     .gate = store.value(train.gates[k]),
                                     .y = product});
    scaled[k] = product;
  }
  std::int64_t rows = shape.row_modes[0], columns = shape.column_modes[0];
  partial[0] = scaled[0].reshape({rows, columns, shape.rank(1)});
  for (int k = 1; k < left; ++k) {
    const std::int64_t m = shape.row_modes[k], inner = shape.column_modes[k] * shape.rank(k + 1);
    const Tensor product = scope.tensor({rows, columns, m, inner}, dtype);
    run(context, MatrixProduct{.a = partial[k - 1],
                               .b = scaled[k],
                               .c = product,
                               .m = rows * columns,
                               .n = m * inner,
                               .k = shape.rank(k)});
    partial[k] = keep({rows * m, columns * shape.column_modes[k], shape.rank(k + 1)});
    run(context, SwapAxes{.x = product, .y = partial[k]});
    rows *= m;
    columns *= shape.column_modes[k];
  }
  left_factor = partial[left - 1];
  if (left == order) {  // a single core has no right factor
    right_factor = keep({1, 1, 1});
    run(context, Fill{.x = right_factor, .value = 1});
    return merged;
  }
  rows = shape.row_modes[order - 1];
  columns = shape.column_modes[order - 1];
  partial[order - 1] = scaled[order - 1].reshape({shape.rank(order - 1), rows, columns});
  for (int k = order - 2; k >= left; --k) {
    const std::int64_t outer = shape.rank(k) * shape.row_modes[k], n = shape.column_modes[k];
    const Tensor product = scope.tensor({outer, n, rows, columns}, dtype);
    run(context, MatrixProduct{.a = scaled[k],
                               .b = partial[k + 1],
                               .c = product,
                               .m = outer * n,
                               .n = rows * columns,
                               .k = shape.rank(k + 1)});
    rows *= shape.row_modes[k];
    columns *= n;
    partial[k] = keep({shape.rank(k), rows, columns});
    run(context, SwapAxes{.x = product, .y = partial[k]});
  }
  right_factor = partial[left];
  return merged;
}

namespace {

// Adds dS_k to the gradients of F_k and D_k.
void add_core_gradient(const Context& context, const ParameterStore& store, const TTMCores& train, int k,
                       const Tensor& dscaled) {
  if (k + 1 < train.shape.order()) {
    const std::int64_t rank = train.shape.rank(k + 1), rows = dscaled.elements() / rank;
    run(context, ScaleColumnsBackward{.x = store.value(train.cores[k]).reshape({rows, rank}),
                                      .gate = store.value(train.gates[k]),
                                      .dy = dscaled,
                                      .dx = store.gradient(train.cores[k]),
                                      .accumulate_dx = true,
                                      .dgate = store.gradient(train.gates[k])});
    return;
  }
  run(context, Add{.x = dscaled, .y = store.gradient(train.cores[k])});
}

}  // namespace

void merge_ttm_backward(const Context& context, const ParameterStore& store, const TTMCores& train,
                        const MergedTTM& merged, const Tensor& dleft, const Tensor& dright) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  const TTMShape& shape = train.shape;
  const int order = shape.order(), left = shape.left_cores();
  const DType dtype = store.dtype();

  Tensor dpartial = dleft;
  for (int k = left - 1; k >= 1; --k) {
    const std::int64_t rows = merged.partial[k - 1].dim(0), columns = merged.partial[k - 1].dim(1);
    const std::int64_t m = shape.row_modes[k], inner = shape.column_modes[k] * shape.rank(k + 1);
    const Tensor dproduct = scope.tensor({rows, columns, m, inner}, dtype);
    run(context, SwapAxes{.x = dpartial.reshape({rows, m, columns, inner}), .y = dproduct});
    const Tensor dcore = scope.tensor(merged.scaled[k].shape(), dtype);
    const Tensor dprevious = scope.tensor(merged.partial[k - 1].shape(), dtype);
    run(context, MatrixProduct{.a = merged.partial[k - 1],
                               .b = dproduct,
                               .c = dcore,
                               .m = shape.rank(k),
                               .n = m * inner,
                               .k = rows * columns,
                               .transpose_a = true});
    run(context, MatrixProduct{.a = dproduct,
                               .b = merged.scaled[k],
                               .c = dprevious,
                               .m = rows * columns,
                               .n = shape.rank(k),
                               .k = m * inner,
                               .transpose_b = true});
    add_core_gradient(context, store, train, k, dcore);
    dpartial = dprevious;
  }
  add_core_gradient(context, store, train, 0, dpartial);
  if (left == order) return;

  dpartial = dright;
  for (int k = left; k < order - 1; ++k) {
    const Tensor& next = merged.partial[k + 1];
    const std::int64_t outer = shape.rank(k) * shape.row_modes[k], n = shape.column_modes[k];
    const std::int64_t rows = next.dim(1), columns = next.dim(2);
    const Tensor dproduct = scope.tensor({outer, n, rows, columns}, dtype);
    run(context, SwapAxes{.x = dpartial.reshape({outer, rows, n, columns}), .y = dproduct});
    const Tensor dcore = scope.tensor(merged.scaled[k].shape(), dtype);
    const Tensor dnext = scope.tensor(next.shape(), dtype);
    run(context, MatrixProduct{.a = dproduct,
                               .b = next,
                               .c = dcore,
                               .m = outer * n,
                               .n = shape.rank(k + 1),
                               .k = rows * columns,
                               .transpose_b = true});
    run(context, MatrixProduct{.a = merged.scaled[k],
                               .b = dproduct,
                               .c = dnext,
                               .m = shape.rank(k + 1),
                               .n = rows * columns,
                               .k = outer * n,
                               .transpose_a = true});
    add_core_gradient(context, store, train, k, dcore);
    dpartial = dnext;
  }
  add_core_gradient(context, store, train, order - 1, dpartial);
}

}  // namespace comera
