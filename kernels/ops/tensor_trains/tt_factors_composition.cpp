#include "kernels/ops/compositions.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/scale_columns.h"
#include "kernels/ops/tensor_trains/tt_factors.h"

namespace comera {

Tensor gated_core(const Context& context, ArenaScope& scope, const Tensor& core, const Tensor& gate) {
  const std::int64_t rank = gate.elements();
  const Tensor gated = scope.tensor(core.shape(), core.dtype());
  run(context,
      ScaleColumnsForward{.x = core.reshape({core.elements() / rank, rank}), .gate = gate, .y = gated});
  return gated;
}

void add_gated_core_gradient(const Context& context, const Tensor& core, const Tensor& gate,
                             const Tensor& dgated, const Tensor& dcore, const Tensor& dgate) {
  const std::int64_t rank = gate.elements();
  run(context, ScaleColumnsBackward{.x = core.reshape({core.elements() / rank, rank}),
                                    .gate = gate,
                                    .dy = dgated,
                                    .dx = dcore,
                                    .accumulate_dx = true,
                                    .dgate = dgate});
}

namespace {

// S_k in scratch. The middle gate is left out: it is multiplied into A, which is smaller than S_p.
struct GatedCores {
  std::array<Tensor, max_tt_cores> core;

  GatedCores(const Context& context, ArenaScope& scope, const TTCoreChain& train) {
    for (int k = 0; k < train.order; ++k)
      core[k] = is_gated(train, k) ? gated_core(context, scope, train.core[k], train.gate[k]) : train.core[k];
  }

  static bool is_gated(const TTCoreChain& train, int k) {
    return k + 1 < train.order && k + 1 != train.inputs;
  }
};

// L_0..L_{p-1} (index k: after k + 1 cores) and R_p..R_{K-1} (index k: from core k on).
struct Partials {
  std::array<Tensor, max_tt_cores> at;

  Partials(const Context& context, ArenaScope& scope, const TTCoreChain& train, const GatedCores& gated,
           DType dtype) {
    at[0] = gated.core[0].reshape({train.mode(0), train.rank(0)});
    for (int k = 1; k < train.inputs; ++k) {
      const std::int64_t rows = at[k - 1].dim(0), width = train.mode(k) * train.rank(k);
      at[k] = scope.tensor({rows * train.mode(k), train.rank(k)}, dtype);
      run(context,
          MatrixProduct{
              .a = at[k - 1], .b = gated.core[k], .c = at[k], .m = rows, .n = width, .k = train.rank(k - 1)});
    }
    const int last = train.order - 1;
    at[last] = gated.core[last].reshape({train.rank(last - 1), train.mode(last)});
    for (int k = last - 1; k >= train.inputs; --k) {
      const std::int64_t width = at[k + 1].dim(1);
      at[k] = scope.tensor({train.rank(k - 1), train.mode(k) * width}, dtype);
      run(context, MatrixProduct{.a = gated.core[k],
                                 .b = at[k + 1],
                                 .c = at[k],
                                 .m = train.rank(k - 1) * train.mode(k),
                                 .n = width,
                                 .k = train.rank(k)});
    }
  }
};

void merge(const Context& context, const TTFactorsForward::Factors& factors) {
  const ProductPlace place(context.products, std::string(factors.place), cores_stay_wide);
  ArenaScope scope(context.arena);
  const TTCoreChain& train = factors.train;
  const GatedCores gated(context, scope, train);
  const Partials partials(context, scope, train, gated, factors.b.dtype());
  run(context, ScaleColumnsForward{.x = partials.at[train.inputs - 1],
                                   .gate = train.gate[train.inputs - 1],
                                   .y = factors.a,
                                   .ldy = factors.a_apart});
  if (const std::int64_t rank = train.rank(train.inputs - 1), padding = factors.columns() - rank;
      padding > 0) {
    const Tensor zeros = scope.tensor({train.input_size(), padding}, factors.b.dtype());
    run(context, Fill{.x = zeros, .value = 0});
    run(context, ScaleColumnsForward{.x = zeros,
                                     .gate = zeros.slice(0, {padding}),
                                     .y = factors.a.from(rank),
                                     .ldy = factors.a_apart});
  }
  run(context, Fill{.x = factors.b, .value = 0});
  const Tensor& made = partials.at[train.inputs];
  run(context, Add{.x = made, .y = factors.b.rows(0, made.dim(0))});
  if (factors.last_row)
    run(context, Add{.x = factors.last_row, .y = factors.b.rows(factors.b.dim(0) - 1, 1)});
}

void merge_backward(const Context& context, const TTFactorsBackward::Factors& factors) {
  const ProductPlace place(context.products, std::string(factors.place), cores_stay_wide);
  ArenaScope scope(context.arena);
  const TTCoreChain& train = factors.train;
  const DType dtype = factors.db.dtype();
  const int middle = train.inputs;
  const GatedCores gated(context, scope, train);
  const Partials partials(context, scope, train, gated, dtype);
  const auto add_gradient = [&](int k, const Tensor& dgated) {
    if (GatedCores::is_gated(train, k))
      add_gated_core_gradient(context, train.core[k], train.gate[k], dgated, factors.dcore[k],
                              factors.dgate[k]);
    else
      run(context, Add{.x = dgated, .y = factors.dcore[k]});
  };

  Tensor dpartial = scope.tensor(partials.at[middle - 1].shape(), dtype);
  run(context, ScaleColumnsBackward{.x = partials.at[middle - 1],
                                    .gate = train.gate[middle - 1],
                                    .dy = factors.da,
                                    .ldy = factors.a_apart,
                                    .dx = dpartial,
                                    .dgate = factors.dgate[middle - 1]});
  for (int k = middle - 1; k >= 1; --k) {  // L_k = L_{k-1} S_k
    const std::int64_t rows = partials.at[k - 1].dim(0), width = train.mode(k) * train.rank(k);
    const Tensor dcore = scope.tensor(gated.core[k].shape(), dtype);
    const Tensor dprevious = scope.tensor(partials.at[k - 1].shape(), dtype);
    run(context, MatrixProduct{.a = partials.at[k - 1],
                               .b = dpartial,
                               .c = dcore,
                               .m = train.rank(k - 1),
                               .n = width,
                               .k = rows,
                               .transpose_a = true});
    run(context, MatrixProduct{.a = dpartial,
                               .b = gated.core[k],
                               .c = dprevious,
                               .m = rows,
                               .n = train.rank(k - 1),
                               .k = width,
                               .transpose_b = true});
    add_gradient(k, dcore);
    dpartial = dprevious;
  }
  add_gradient(0, dpartial);

  if (factors.dlast_row)
    run(context, Add{.x = factors.db.rows(factors.db.dim(0) - 1, 1), .y = factors.dlast_row});
  dpartial = factors.db.rows(0, train.rank(middle - 1));
  for (int k = middle; k < train.order - 1; ++k) {  // R_k = S_k R_{k+1}
    const std::int64_t rows = train.rank(k - 1) * train.mode(k), width = partials.at[k + 1].dim(1);
    const Tensor dcore = scope.tensor(gated.core[k].shape(), dtype);
    const Tensor dnext = scope.tensor(partials.at[k + 1].shape(), dtype);
    run(context, MatrixProduct{.a = dpartial,
                               .b = partials.at[k + 1],
                               .c = dcore,
                               .m = rows,
                               .n = train.rank(k),
                               .k = width,
                               .transpose_b = true});
    run(context, MatrixProduct{.a = gated.core[k],
                               .b = dpartial,
                               .c = dnext,
                               .m = train.rank(k),
                               .n = width,
                               .k = rows,
                               .transpose_a = true});
    add_gradient(k, dcore);
    dpartial = dnext;
  }
  add_gradient(train.order - 1, dpartial);
}

void tt_factors_forward(const TTFactorsForward& op, const Context& context) {
  for (const auto& factors : op.factors) merge(context, factors);
}
void tt_factors_backward(const TTFactorsBackward& op, const Context& context) {
  for (const auto& factors : op.factors) merge_backward(context, factors);
}

}  // namespace

void compose_tt_factors(Backend& backend, DType compute) {
  backend.compose<TTFactorsForward>(compute, tt_factors_forward);
  backend.compose<TTFactorsBackward>(compute, tt_factors_backward);
}

}  // namespace comera
