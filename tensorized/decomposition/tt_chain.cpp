#include "tensorized/decomposition/tt_chain.h"

#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"

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

TTCoreChain tensors_of(const ParameterStore& store, const TTCores& train) {
  TTCoreChain tensors{.order = train.shape.order(),
                      .inputs = static_cast<int>(train.shape.input_modes.size()),
                      .core = {},
                      .gate = {}};
  COMERA_CHECK(tensors.order <= max_tt_cores, "a tensor train has {} cores, at most {} are supported",
               tensors.order, max_tt_cores);
  for (int k = 0; k < tensors.order; ++k) tensors.core[k] = store.value(train.cores[k]);
  for (int k = 0; k + 1 < tensors.order; ++k) tensors.gate[k] = store.value(train.gates[k]);
  return tensors;
}

}  // namespace

TTFactorsForward::Factors factors_of(const ParameterStore& store, const TTCores& train, const Tensor& a,
                                     std::int64_t a_apart, std::int64_t a_columns, const Tensor& b) {
  return {.train = tensors_of(store, train), .a = a, .a_apart = a_apart, .a_columns = a_columns, .b = b};
}

TTFactorsBackward::Factors factor_gradients_of(const ParameterStore& store, const TTCores& train,
                                               const Tensor& da, std::int64_t a_apart, const Tensor& db) {
  TTFactorsBackward::Factors factors{
      .train = tensors_of(store, train), .da = da, .a_apart = a_apart, .db = db, .dcore = {}, .dgate = {}};
  for (int k = 0; k < factors.train.order; ++k) factors.dcore[k] = store.gradient(train.cores[k]);
  for (int k = 0; k + 1 < factors.train.order; ++k) factors.dgate[k] = store.gradient(train.gates[k]);
  return factors;
}

void merge_factors(const Context& context, const ParameterStore& store, const TTCores& train, const Tensor& a,
                   std::int64_t a_apart, const Tensor& b) {
  run(context, TTFactorsForward{{factors_of(store, train, a, a_apart, 0, b)}});
}

void merge_factors_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                            const Tensor& da, std::int64_t a_apart, const Tensor& db) {
  run(context, TTFactorsBackward{{factor_gradients_of(store, train, da, a_apart, db)}});
}

namespace {

// The cores with their gates multiplied in, S_k = G_k D_k, in scratch; the last one has no gate.
struct GatedCores {
  std::array<Tensor, max_tt_cores> core;

  GatedCores(const Context& context, ArenaScope& scope, const ParameterStore& store, const TTCores& train) {
    const TTCoreChain tensors = tensors_of(store, train);
    core = tensors.core;
    for (int k = 0; k + 1 < tensors.order; ++k)
      core[k] = gated_core(context, scope, core[k], tensors.gate[k]);
  }
};

// Adds dS_k to the gradients of G_k and D_k.
void add_core_gradient(const Context& context, const ParameterStore& store, const TTCores& train, int k,
                       const Tensor& dgated) {
  if (k + 1 < train.shape.order())
    add_gated_core_gradient(context, store.value(train.cores[k]), store.value(train.gates[k]), dgated,
                            store.gradient(train.cores[k]), store.gradient(train.gates[k]));
  else
    run(context, Add{.x = dgated, .y = store.gradient(train.cores[k])});
}

// Z_k for k = 0..K: Z_0 = x; on the input side Z_k is (tokens, r_k, inputs left), on the output side
// (tokens, outputs done, r_k). The last one is y.
struct Modewise {
  std::array<Tensor, max_tt_cores + 1> z;

  Modewise(const Context& context, ArenaScope& scope, const TTShape& shape, const GatedCores& gated,
           const Tensor& x, const Tensor& y) {
    const int inputs = static_cast<int>(shape.input_modes.size()), order = shape.order();
    const std::int64_t tokens = x.dim(0);
    z[0] = x;
    std::int64_t rest = shape.input_size();
    for (int k = 0; k < inputs; ++k) {
      rest /= shape.mode(k);
      z[k + 1] = scope.tensor({tokens, shape.rank(k + 1) * rest}, x.dtype());
      run(context, MatrixProduct{.a = gated.core[k],
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
                                   .b = gated.core[k],
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
  const GatedCores gated(context, scope, store, train);
  const Modewise partial(context, scope, train.shape, gated, x, y);
}

void modewise_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                       const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                       bool gradients) {
  ArenaScope scope(context.arena);
  const TTShape& shape = train.shape;
  const int inputs = static_cast<int>(shape.input_modes.size()), order = shape.order();
  const std::int64_t tokens = x.dim(0);
  const DType dtype = x.dtype();
  const GatedCores gated(context, scope, store, train);
  std::array<Tensor, max_tt_cores + 1> z;
  if (gradients) z = Modewise(context, scope, shape, gated, x, Tensor()).z;

  Tensor dz = dy;
  std::int64_t done = shape.output_size();
  for (int k = order - 1; k >= inputs; --k) {
    done /= shape.mode(k);
    const std::int64_t rows = tokens * done, width = shape.mode(k) * shape.rank(k + 1);
    if (gradients) {
      const Tensor dcore = scope.tensor(gated.core[k].shape(), dtype);
      run(context, MatrixProduct{.a = z[k],
                                 .b = dz,
                                 .c = dcore,
                                 .m = shape.rank(k),
                                 .n = width,
                                 .k = rows,
                                 .transpose_a = true});
      add_core_gradient(context, store, train, k, dcore);
    }
    const Tensor dprevious = scope.tensor({tokens, done * shape.rank(k)}, dtype);
    run(context, MatrixProduct{.a = dz,
                               .b = gated.core[k],
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
      const Tensor dcore = scope.tensor(gated.core[k].shape(), dtype);
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
      add_core_gradient(context, store, train, k, dcore);
    }
    if (k == 0 && !dx) break;
    const Tensor dprevious = k == 0 ? dx : scope.tensor({tokens, rows * rest}, dtype);
    run(context, MatrixProduct{.a = gated.core[k],
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
