#include "tensorized/ttm_chain.h"

#include <array>
#include <cmath>

#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/scale_columns.h"
#include "kernels/ops/ttm_chain.h"
#include "tensorized/tt_chain.h"

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

namespace {

// Every step of the merge: the left half grows to the right, the right half to the left, and each product is
// followed by a swap that brings rows before columns. Forward keeps what backward needs.
struct Merge {
  std::array<Tensor, max_ttm_cores> scaled;  // S_k = F_k D_k
  std::array<Tensor, max_ttm_cores>
      partial;  // left: (M, N, r_k) after core k; right: (r_{k-1}, M', N') from core k

  Merge(const Context& context, ArenaScope& scope, const ParameterStore& store, const TTMCores& train) {
    const TTMShape& shape = train.shape;
    const int order = shape.order(), left = shape.left_cores();
    const DType dtype = store.dtype();
    for (int k = 0; k < order; ++k) {
      scaled[k] = store.value(train.cores[k]);
      if (k + 1 == order) break;
      const std::int64_t rank = shape.rank(k + 1);
      const Tensor product = scope.tensor(scaled[k].shape(), dtype);
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
      partial[k] = scope.tensor({rows * m, columns * shape.column_modes[k], shape.rank(k + 1)}, dtype);
      run(context, SwapAxes{.x = product, .y = partial[k]});
      rows *= m;
      columns *= shape.column_modes[k];
    }
    if (left == order) return;
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
      partial[k] = scope.tensor({shape.rank(k), rows, columns}, dtype);
      run(context, SwapAxes{.x = product, .y = partial[k]});
    }
  }
};

void copy(const Context& context, const Tensor& x, const Tensor& y) {
  run(context, Fill{.x = y, .value = 0});
  run(context, Add{.x = x, .y = y});
}

// Adds dS_k, which is overwritten, to the gradients of F_k and D_k.
void add_core_gradient(const Context& context, const ParameterStore& store, const TTMCores& train, int k,
                       const Tensor& dscaled) {
  if (k + 1 < train.shape.order()) {
    const std::int64_t rank = train.shape.rank(k + 1), rows = dscaled.elements() / rank;
    run(context, ScaleColumnsBackward{.x = store.value(train.cores[k]).reshape({rows, rank}),
                                      .gate = store.value(train.gates[k]),
                                      .dy = dscaled,
                                      .dx = dscaled,
                                      .dgate = store.gradient(train.gates[k])});
  }
  run(context, Add{.x = dscaled, .y = store.gradient(train.cores[k])});
}

}  // namespace

void merge_ttm(const Context& context, const ParameterStore& store, const TTMCores& train, const Tensor& left,
               const Tensor& right) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  const Merge merge(context, scope, store, train);
  const int split = train.shape.left_cores();
  copy(context, merge.partial[split - 1], left);
  if (split == train.shape.order())
    run(context, Fill{.x = right, .value = 1});  // a single core has no right half
  else
    copy(context, merge.partial[split], right);
}

void merge_ttm_backward(const Context& context, const ParameterStore& store, const TTMCores& train,
                        const Tensor& dleft, const Tensor& dright) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  const Merge merge(context, scope, store, train);
  const TTMShape& shape = train.shape;
  const int order = shape.order(), left = shape.left_cores();
  const DType dtype = store.dtype();

  Tensor dpartial = scope.tensor(dleft.shape(), dtype);
  copy(context, dleft, dpartial);
  for (int k = left - 1; k >= 1; --k) {
    const std::int64_t rows = merge.partial[k - 1].dim(0), columns = merge.partial[k - 1].dim(1);
    const std::int64_t m = shape.row_modes[k], inner = shape.column_modes[k] * shape.rank(k + 1);
    const Tensor dproduct = scope.tensor({rows, columns, m, inner}, dtype);
    run(context, SwapAxes{.x = dpartial.reshape({rows, m, columns, inner}), .y = dproduct});
    const Tensor dcore = scope.tensor(merge.scaled[k].shape(), dtype);
    const Tensor dprevious = scope.tensor(merge.partial[k - 1].shape(), dtype);
    run(context, MatrixProduct{.a = merge.partial[k - 1],
                               .b = dproduct,
                               .c = dcore,
                               .m = shape.rank(k),
                               .n = m * inner,
                               .k = rows * columns,
                               .transpose_a = true});
    run(context, MatrixProduct{.a = dproduct,
                               .b = merge.scaled[k],
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

  dpartial = scope.tensor(dright.shape(), dtype);
  copy(context, dright, dpartial);
  for (int k = left; k < order - 1; ++k) {
    const Tensor& next = merge.partial[k + 1];
    const std::int64_t outer = shape.rank(k) * shape.row_modes[k], n = shape.column_modes[k];
    const std::int64_t rows = next.dim(1), columns = next.dim(2);
    const Tensor dproduct = scope.tensor({outer, n, rows, columns}, dtype);
    run(context, SwapAxes{.x = dpartial.reshape({outer, rows, n, columns}), .y = dproduct});
    const Tensor dcore = scope.tensor(merge.scaled[k].shape(), dtype);
    const Tensor dnext = scope.tensor(next.shape(), dtype);
    run(context, MatrixProduct{.a = dproduct,
                               .b = next,
                               .c = dcore,
                               .m = outer * n,
                               .n = shape.rank(k + 1),
                               .k = rows * columns,
                               .transpose_b = true});
    run(context, MatrixProduct{.a = merge.scaled[k],
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
