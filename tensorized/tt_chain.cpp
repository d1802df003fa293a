#include "tensorized/tt_chain.h"

#include <cmath>

#include "kernels/ops/layout.h"
#include "kernels/ops/matrix_product.h"
#include "kernels/ops/scale_columns.h"

namespace comera {

TTCores TTCores::add(ParameterStore& store, const std::string& name, const TTShape& shape) {
  TTCores train{.shape = shape, .cores = {}, .gates = {}};
  const int order = shape.order();
  const double sigma = std::sqrt(1.0 / static_cast<double>(shape.input_size() + shape.output_size()));
  for (int k = 0; k < order; ++k) {
    const bool input = k < static_cast<int>(shape.input_modes.size());
    const double deviation = std::pow(sigma, 1.0 / order) / std::sqrt(static_cast<double>(shape.rank(k + 1)));
    train.cores.push_back(store.add({.name = fmt::format("{}.core.{}", name, k),
                                     .role = ParameterRole::core,
                                     .shape = {shape.rank(k), shape.mode(k), shape.rank(k + 1)},
                                     .decays = true,
                                     .initializer = {Initializer::Kind::normal, deviation},
                                     .matrix_rows = shape.rank(k) * (input ? shape.mode(k) : 1)}));
    if (k + 1 < order)
      train.gates.push_back(store.add({.name = fmt::format("{}.gate.{}", name, k),
                                       .role = ParameterRole::gate,
                                       .shape = {shape.rank(k + 1)},
                                       .decays = false,
                                       .initializer = {Initializer::Kind::constant, 1}}));
  }
  return train;
}

namespace {

constexpr int max_cores = 16;

// The cores with their gates multiplied in, S_k = G_k D_k, in scratch; a core without a gate is itself. The
// middle gate is left out with `merged`, where it belongs to A.
struct ScaledCores {
  std::array<Tensor, max_cores> core;

  ScaledCores(const Context& context, ArenaScope& scope, const ParameterStore& store, const TTCores& train,
              bool merged) {
    const TTShape& shape = train.shape;
    COMERA_CHECK(shape.order() <= max_cores, "a tensor train has {} cores, at most {} are supported",
                 shape.order(), max_cores);
    for (int k = 0; k < shape.order(); ++k) {
      core[k] = store.value(train.cores[k]);
      if (!is_scaled(shape, k, merged)) continue;
      const std::int64_t rank = shape.rank(k + 1);
      const Tensor scaled = scope.tensor(core[k].shape(), core[k].dtype());
      run(context, ScaleColumnsForward{.x = core[k].reshape({core[k].elements() / rank, rank}),
                                       .gate = store.value(train.gates[k]),
                                       .y = scaled});
      core[k] = scaled;
    }
  }

  static bool is_scaled(const TTShape& shape, int k, bool merged) {
    return k + 1 < shape.order() && !(merged && k + 1 == static_cast<int>(shape.input_modes.size()));
  }
};

// Adds dS_k, which is overwritten, to the gradients of G_k and D_k.
void add_core_gradient(const Context& context, const ParameterStore& store, const TTCores& train, int k,
                       bool merged, const Tensor& dscaled) {
  if (ScaledCores::is_scaled(train.shape, k, merged)) {
    const std::int64_t rank = train.shape.rank(k + 1), rows = dscaled.elements() / rank;
    run(context, ScaleColumnsBackward{.x = store.value(train.cores[k]).reshape({rows, rank}),
                                      .gate = store.value(train.gates[k]),
                                      .dy = dscaled,
                                      .dx = dscaled,
                                      .dgate = store.gradient(train.gates[k])});
  }
  run(context, Add{.x = dscaled, .y = store.gradient(train.cores[k])});
}

// L_0..L_{p-1} (index k: after k + 1 cores) and R_p..R_{K-1} (index k: from core k on).
struct Partials {
  std::array<Tensor, max_cores> at;

  Partials(const Context& context, ArenaScope& scope, const TTShape& shape, const ScaledCores& scaled,
           DType dtype) {
    const int inputs = static_cast<int>(shape.input_modes.size()), order = shape.order();
    at[0] = scaled.core[0].reshape({shape.mode(0), shape.rank(1)});
    for (int k = 1; k < inputs; ++k) {
      const std::int64_t rows = at[k - 1].dim(0), width = shape.mode(k) * shape.rank(k + 1);
      at[k] = scope.tensor({rows * shape.mode(k), shape.rank(k + 1)}, dtype);
      run(context,
          MatrixProduct{
              .a = at[k - 1], .b = scaled.core[k], .c = at[k], .m = rows, .n = width, .k = shape.rank(k)});
    }
    at[order - 1] = scaled.core[order - 1].reshape({shape.rank(order - 1), shape.mode(order - 1)});
    for (int k = order - 2; k >= inputs; --k) {
      const std::int64_t width = at[k + 1].dim(1);
      at[k] = scope.tensor({shape.rank(k), shape.mode(k) * width}, dtype);
      run(context, MatrixProduct{.a = scaled.core[k],
                                 .b = at[k + 1],
                                 .c = at[k],
                                 .m = shape.rank(k) * shape.mode(k),
                                 .n = width,
                                 .k = shape.rank(k + 1)});
    }
  }
};

}  // namespace

void merge_halves(const Context& context, const ParameterStore& store, const TTCores& train, const Tensor& a,
                  std::int64_t a_apart, const Tensor& b) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  const TTShape& shape = train.shape;
  const int middle = static_cast<int>(shape.input_modes.size());
  const ScaledCores scaled(context, scope, store, train, true);
  const Partials partials(context, scope, shape, scaled, b.dtype());
  run(context, ScaleColumnsForward{.x = partials.at[middle - 1],
                                   .gate = store.value(train.gates[middle - 1]),
                                   .y = a,
                                   .ldy = a_apart});
  run(context, Fill{.x = b, .value = 0});
  run(context, Add{.x = partials.at[middle], .y = b});
}

void merge_halves_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                           const Tensor& da, std::int64_t a_apart, const Tensor& db) {
  const ProductPlace place(context.products, "", cores_stay_wide);
  ArenaScope scope(context.arena);
  const TTShape& shape = train.shape;
  const DType dtype = db.dtype();
  const int middle = static_cast<int>(shape.input_modes.size()), order = shape.order();
  const ScaledCores scaled(context, scope, store, train, true);
  const Partials partials(context, scope, shape, scaled, dtype);

  Tensor dpartial = scope.tensor(partials.at[middle - 1].shape(), dtype);
  run(context, ScaleColumnsBackward{.x = partials.at[middle - 1],
                                    .gate = store.value(train.gates[middle - 1]),
                                    .dy = da,
                                    .ldy = a_apart,
                                    .dx = dpartial,
                                    .dgate = store.gradient(train.gates[middle - 1])});
  for (int k = middle - 1; k >= 1; --k) {  // L_k = L_{k-1} S_k
    const std::int64_t rows = partials.at[k - 1].dim(0), width = shape.mode(k) * shape.rank(k + 1);
    const Tensor dcore = scope.tensor(scaled.core[k].shape(), dtype);
    const Tensor dprevious = scope.tensor(partials.at[k - 1].shape(), dtype);
    run(context, MatrixProduct{.a = partials.at[k - 1],
                               .b = dpartial,
                               .c = dcore,
                               .m = shape.rank(k),
                               .n = width,
                               .k = rows,
                               .transpose_a = true});
    run(context, MatrixProduct{.a = dpartial,
                               .b = scaled.core[k],
                               .c = dprevious,
                               .m = rows,
                               .n = shape.rank(k),
                               .k = width,
                               .transpose_b = true});
    add_core_gradient(context, store, train, k, true, dcore);
    dpartial = dprevious;
  }
  add_core_gradient(context, store, train, 0, true, dpartial);

  dpartial = db;
  for (int k = middle; k < order - 1; ++k) {  // R_k = S_k R_{k+1}
    const std::int64_t rows = shape.rank(k) * shape.mode(k), width = partials.at[k + 1].dim(1);
    const Tensor dcore = scope.tensor(scaled.core[k].shape(), dtype);
    const Tensor dnext = scope.tensor(partials.at[k + 1].shape(), dtype);
    run(context, MatrixProduct{.a = dpartial,
                               .b = partials.at[k + 1],
                               .c = dcore,
                               .m = rows,
                               .n = shape.rank(k + 1),
                               .k = width,
                               .transpose_b = true});
    run(context, MatrixProduct{.a = scaled.core[k],
                               .b = dpartial,
                               .c = dnext,
                               .m = shape.rank(k + 1),
                               .n = width,
                               .k = rows,
                               .transpose_a = true});
    add_core_gradient(context, store, train, k, true, dcore);
    dpartial = dnext;
  }
  add_core_gradient(context, store, train, order - 1, true, dpartial);
}

namespace {

// Z_k for k = 0..K: Z_0 = x; on the input side Z_k is (tokens, r_k, inputs left), on the output side
// (tokens, outputs done, r_k). The last one is y.
struct Modewise {
  std::array<Tensor, max_cores + 1> z;

  Modewise(const Context& context, ArenaScope& scope, const TTShape& shape, const ScaledCores& scaled,
           const Tensor& x, const Tensor& y) {
    const int inputs = static_cast<int>(shape.input_modes.size()), order = shape.order();
    const std::int64_t tokens = x.dim(0);
    z[0] = x;
    std::int64_t rest = shape.input_size();
    for (int k = 0; k < inputs; ++k) {
      rest /= shape.mode(k);
      z[k + 1] = scope.tensor({tokens, shape.rank(k + 1) * rest}, x.dtype());
      run(context, MatrixProduct{.a = scaled.core[k],
                                 .b = z[k],
                                 .c = z[k + 1],
                                 .m = shape.rank(k + 1),
                                 .n = rest,
                                 .k = shape.rank(k) * shape.mode(k),
                                 .transpose_a = true,
                                 .batch = tokens,
                                 .stride_b = z[k].dim(1),
                                 .stride_c = z[k + 1].dim(1)});
    }
    std::int64_t done = 1;
    for (int k = inputs; k < order; ++k) {
      const std::int64_t width = shape.mode(k) * shape.rank(k + 1);
      z[k + 1] = k + 1 == order ? y : scope.tensor({tokens, done * width}, x.dtype());
      if (z[k + 1])
        run(context, MatrixProduct{.a = z[k],
                                   .b = scaled.core[k],
                                   .c = z[k + 1],
                                   .m = tokens * done,
                                   .n = width,
                                   .k = shape.rank(k)});
      done *= shape.mode(k);
    }
  }
};

}  // namespace

void modewise_forward(const Context& context, const ParameterStore& store, const TTCores& train,
                      const Tensor& x, const Tensor& y) {
  ArenaScope scope(context.arena);
  const ScaledCores scaled(context, scope, store, train, false);
  const Modewise partial(context, scope, train.shape, scaled, x, y);
}

void modewise_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                       const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                       bool gradients) {
  ArenaScope scope(context.arena);
  const TTShape& shape = train.shape;
  const int inputs = static_cast<int>(shape.input_modes.size()), order = shape.order();
  const std::int64_t tokens = x.dim(0);
  const DType dtype = x.dtype();
  const ScaledCores scaled(context, scope, store, train, false);
  std::array<Tensor, max_cores + 1> z;
  if (gradients) z = Modewise(context, scope, shape, scaled, x, Tensor()).z;

  Tensor dz = dy;
  std::int64_t done = shape.output_size();
  for (int k = order - 1; k >= inputs; --k) {
    done /= shape.mode(k);
    const std::int64_t rows = tokens * done, width = shape.mode(k) * shape.rank(k + 1);
    if (gradients) {
      const Tensor dcore = scope.tensor(scaled.core[k].shape(), dtype);
      run(context, MatrixProduct{.a = z[k],
                                 .b = dz,
                                 .c = dcore,
                                 .m = shape.rank(k),
                                 .n = width,
                                 .k = rows,
                                 .transpose_a = true});
      add_core_gradient(context, store, train, k, false, dcore);
    }
    const Tensor dprevious = scope.tensor({tokens, done * shape.rank(k)}, dtype);
    run(context, MatrixProduct{.a = dz,
                               .b = scaled.core[k],
                               .c = dprevious,
                               .m = rows,
                               .n = shape.rank(k),
                               .k = width,
                               .transpose_b = true});
    dz = dprevious;
  }
  std::int64_t rest = 1;
  for (int k = inputs - 1; k >= 0; --k) {
    const std::int64_t rows = shape.rank(k) * shape.mode(k);
    if (gradients) {
      const Tensor dcore = scope.tensor(scaled.core[k].shape(), dtype);
      run(context, Fill{.x = dcore, .value = 0});
      run(context, MatrixProduct{.a = z[k],
                                 .b = dz,
                                 .c = dcore,
                                 .m = rows,
                                 .n = shape.rank(k + 1),
                                 .k = rest,
                                 .transpose_b = true,
                                 .accumulate = true,
                                 .batch = tokens,
                                 .stride_a = z[k].dim(1),
                                 .stride_b = dz.dim(1),
                                 .stride_c = 0});
      add_core_gradient(context, store, train, k, false, dcore);
    }
    if (k == 0 && !dx) break;
    const Tensor dprevious = k == 0 ? dx : scope.tensor({tokens, rows * rest}, dtype);
    run(context, MatrixProduct{.a = scaled.core[k],
                               .b = dz,
                               .c = dprevious,
                               .m = rows,
                               .n = rest,
                               .k = shape.rank(k + 1),
                               .accumulate = k == 0 && accumulate_dx,
                               .batch = tokens,
                               .stride_b = dz.dim(1),
                               .stride_c = rows * rest});
    dz = dprevious;
    rest *= shape.mode(k);
  }
}

}  // namespace comera
