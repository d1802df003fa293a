#include "tensorized/dense_linear.h"

#include <cmath>

#include "kernels/ops/bias_activation.h"
#include "kernels/ops/matrix_product.h"

namespace comera {

DenseLinear::DenseLinear(ParameterStore& store, const Spec& spec) : Linear(spec), store_(store) {
  const double deviation = std::sqrt(1.0 / static_cast<double>(spec.input_size + spec.output_size));
  for (int i = 0; i < outputs(); ++i) {
    weights_.push_back(store.add({.name = output_name(i) + ".weight",
                                  .role = ParameterRole::dense,
                                  .shape = {spec.input_size, spec.output_size},
                                  .decays = true,
                                  .initializer = {Initializer::Kind::normal, deviation}}));
    add_bias(store, i);
  }
}

Linear::Saved DenseLinear::forward(const Context& context, const Tensor& x, Activation activation,
                                   bool biased) const {
  Saved saved{.x = x,
              .activation = activation,
              .biased = biased,
              .plan = {},
              .a = {},
              .xa = {},
              .b = {},
              .u = {},
              .y = {}};
  const std::int64_t tokens = x.dim(0);
  for (int i = 0; i < outputs(); ++i) {
    saved.u[i] = context.arena.saved({tokens, spec_.output_size}, x.dtype());
    if (activation != Activation::none)
      saved.y[i] = context.arena.saved({tokens, spec_.output_size}, x.dtype());
    run(context, MatrixProduct{.a = x,
                               .b = store_.product_value(weights_[i]),
                               .c = saved.u[i],
                               .m = tokens,
                               .n = spec_.output_size,
                               .k = spec_.input_size});
    if (biased || activation != Activation::none)
      run(context, BiasActivationForward{.u = saved.u[i],
                                         .bias = biased ? store_.value(biases_[i]) : Tensor(),
                                         .activation = activation,
                                         .y = saved.y[i]});
  }
  return saved;
}

void DenseLinear::backward(const Context& context, const Saved& saved,
                           const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                           bool accumulate_dx) const {
  const std::int64_t tokens = saved.x.dim(0);
  for (int i = 0; i < outputs(); ++i) {
    if (saved.biased || saved.activation != Activation::none)
      run(context, BiasActivationBackward{.u = saved.u[i],
                                          .y = saved.y[i],
                                          .activation = saved.activation,
                                          .dy = dy[i],
                                          .dbias = saved.biased ? store_.gradient(biases_[i]) : Tensor()});
    run(context, MatrixProduct{.a = saved.x,
                               .b = dy[i],
                               .c = store_.gradient(weights_[i]),
                               .m = spec_.input_size,
                               .n = spec_.output_size,
                               .k = tokens,
                               .transpose_a = true,
                               .accumulate = true});
    run(context, MatrixProduct{.a = dy[i],
                               .b = store_.product_value(weights_[i]),
                               .c = dx,
                               .m = tokens,
                               .n = spec_.input_size,
                               .k = spec_.output_size,
                               .transpose_b = true,
                               .accumulate = accumulate_dx || i > 0});
  }
}

std::string DenseLinear::explain(std::int64_t tokens) const {
  const double flops = 2e-9 * static_cast<double>(tokens * spec_.input_size * spec_.output_size) * outputs();
  return fmt::format("{}: {}, {} tokens\n  one product for each part: {:.3f} GFLOP\n", spec_.name,
                     shape_text(0), tokens, flops);
}

std::string DenseLinear::shape_text(int /*output*/) const {
  return fmt::format("dense {} x {}", spec_.input_size, spec_.output_size);
}

}  // namespace comera
