#include "tensorized/linear/linear.h"

#include <cmath>

#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/products/matrix_product.h"
#include "tensorized/linear/dense_linear.h"
#include "tensorized/linear/low_rank_linear.h"
#include "tensorized/linear/lte_linear.h"
#include "tensorized/linear/tt_linear_layer.h"

namespace comera {

Linear::Saved Linear::forward(const Context& context, const Tensor& x, const Pass& pass) const {
  const ProductPlace place = place_of_pass(context, x.dim(0));
  return run_forward(context, x, pass);
}

void Linear::backward(const Context& context, const Saved& saved,
                      const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx, bool accumulate_dx,
                      MergedGradients* merged) const {
  const ProductPlace place = place_of_pass(context, saved.x.dim(0));
  run_backward(context, saved, dy, dx, accumulate_dx, merged);
}

ProductPlace Linear::place_of_pass(const Context& context, std::int64_t tokens) const {
  // Only a log needs this, and computing a plan is not free.
  return place(context, context.products == nullptr || suits_float8(tokens, context.backend.machine()));
}

ProductPlace Linear::place(const Context& context, bool suited) const {
  const char* why = "";
  if (float8_ && !fits_float8())
    why = "its sizes are not multiples of 16";
  else if (float8_ && !suited)
    why =
        "not evaluated through the left and right factors alone: another way is cheaper for this few rows, "
        "or it has a diagonal";
  return {context.products, spec_.name, why};
}

void Linear::add_bias(ParameterStore& store, int i, ParameterRole role) {
  biases_.push_back(store.add(
      {.name = output_name(i) + ".bias",
       .role = role,
       .shape = {spec_.output_size},
       .decays = false,
       .initializer = {Initializer::Kind::uniform, 1 / std::sqrt(static_cast<double>(spec_.output_size))}}));
}

Linear::Saved Linear::begin(const Context& context, const Tensor& x, const Pass& pass) const {
  Saved saved{.x = x, .pass = pass, .u = {}, .y = {}, .kept = {}};
  const Shape shape{x.dim(0), spec_.output_size};
  for (int i = 0; i < outputs(); ++i) {
    saved.u[i] = context.arena.saved(shape, x.dtype());
    if (pass.activation != Activation::none) saved.y[i] = context.arena.saved(shape, x.dtype());
  }
  return saved;
}

void Linear::multiply(const Context& context, const Saved& saved, int i, const Tensor& w) const {
  const MatrixProduct product{.a = saved.x,
                              .b = w,
                              .c = saved.u[i],
                              .m = saved.x.dim(0),
                              .n = spec_.output_size,
                              .k = spec_.input_size};
  if (saved.pass.biased && saved.pass.activation == Activation::none)
    return run(context, BiasedProduct{.product = product,
                                      .bias = store_.value(biases_[i]),
                                      .rounded = store_.product_value(biases_[i])});
  run(context, product);
  add_bias_and_activate(context, saved, i);
}

void Linear::add_bias_and_activate(const Context& context, const Saved& saved, int i) const {
  if (!saved.pass.biased && saved.pass.activation == Activation::none) return;
  run(context, BiasActivationForward{.u = saved.u[i],
                                     .bias = saved.pass.biased ? store_.value(biases_[i]) : Tensor(),
                                     .activation = saved.pass.activation,
                                     .y = saved.y[i]});
}

void Linear::bias_activation_backward(const Context& context, const Saved& saved, int i,
                                      const Tensor& dy) const {
  const Tensor dbias = saved.pass.biased ? store_.gradient(biases_[i]) : Tensor();
  if (!dbias && saved.pass.activation == Activation::none) return;
  run(context,
      BiasActivationBackward{
          .u = saved.u[i], .y = saved.y[i], .activation = saved.pass.activation, .dy = dy, .dbias = dbias});
}

namespace {

// Constructs the layer of a form.
struct LinearFactory {
  ParameterStore& store;
  const Linear::Spec& spec;

  std::unique_ptr<Linear> operator()(const DenseForm& /*form*/) const {
    return std::make_unique<DenseLinear>(store, spec);
  }
  std::unique_ptr<Linear> operator()(const TensorTrainForm& form) const {
    return std::make_unique<TTLinear>(store, spec, form.shapes, form.plan);
  }
  std::unique_ptr<Linear> operator()(const LowRankForm& form) const {
    return std::make_unique<LowRankLinear>(store, spec, form.rank);
  }
  std::unique_ptr<Linear> operator()(const LteForm& form) const {
    return std::make_unique<LteLinear>(store, spec, form);
  }
};

}  // namespace

std::unique_ptr<Linear> make_linear(ParameterStore& store, const Linear::Spec& spec, const LinearForm& form) {
  COMERA_CHECK(!spec.outputs.empty() && spec.outputs.size() <= max_group_outputs,
               "{}: {} outputs, expected 1 to {}", spec.name, spec.outputs.size(), max_group_outputs);
  return std::visit(LinearFactory{store, spec}, form);
}

std::unique_ptr<Linear> make_linear(ParameterStore& store, const Linear::Spec& spec,
                                    const std::vector<TTShape>& shapes, PlanKind plan) {
  if (shapes.empty()) return make_linear(store, spec, DenseForm{});
  return make_linear(store, spec, TensorTrainForm{.shapes = shapes, .plan = plan});
}

}  // namespace comera
