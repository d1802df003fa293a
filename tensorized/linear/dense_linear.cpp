#include "tensorized/linear/dense_linear.h"

#include <cmath>

#include "kernels/ops/products/float8_operands.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

DenseLinear::DenseLinear(ParameterStore& store, const Spec& spec) : Linear(store, spec) {
  const double deviation = std::sqrt(1.0 / static_cast<double>(spec.input_size + spec.output_size));
  for (int i = 0; i < outputs(); ++i) {
    weights_.push_back(store.add({.name = output_name(i) + ".weight",
                                  .role = ParameterRole::dense,
                                  .shape = {spec.input_size, spec.output_size},
                                  .decays = true,
                                  .initializer = {Initializer::Kind::normal, deviation},
                                  .matrix_rows = spec.scores ? 0 : spec.input_size}));
    add_bias(store, i);
  }
}

Linear::Saved DenseLinear::run_forward(const Context& context, const Tensor& x, const Pass& pass) const {
  Saved saved = begin(context, x, pass);
  if (in_float8())
    forward_in_float8(context, saved);
  else
    for (int i = 0; i < outputs(); ++i) multiply(context, saved, i, store_.product_value(weights_[i]));
  return saved;
}

// Weights are rounded once, from the master type.
void DenseLinear::forward_in_float8(const Context& context, const Saved& saved) const {
  constexpr DType e4m3 = DType::float8_e4m3;
  using Copies = Float8Operands::Copies;
  const std::int64_t tokens = saved.x.dim(0), inputs = spec_.input_size, columns = spec_.output_size;
  ArenaScope scope(context.arena);
  const Float8Operands operands(context, scope, float8_->scales(), float8_->options());
  const Tensor x =
      operands.quantize(Float8Slots::x, saved.x, tokens, inputs, e4m3, Copies::straight).straight;
  for (int i = 0; i < outputs(); ++i) {
    ArenaScope inner(context.arena);
    const Float8Operands once(context, inner, float8_->scales(), float8_->options());
    const int slot = Float8Slots::b + i;
    const Tensor w =
        once.quantize(slot, store_.value(weights_[i]), inputs, columns, e4m3, Copies::transposed).transposed;
    run(context, Float8Product{.a = x,
                               .b = w,
                               .c = saved.u[i],
                               .m = tokens,
                               .n = columns,
                               .k = inputs,
                               .scale_a = once.scale(Float8Slots::x),
                               .scale_b = once.scale(slot),
                               .fast = true,
                               .type = saved.x.dtype()});
    add_bias_and_activate(context, saved, i);
  }
}

void DenseLinear::run_backward(const Context& context, const Saved& saved,
                               const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                               bool accumulate_dx, MergedGradients* /*merged*/) const {
  for (int i = 0; i < outputs(); ++i) {
    bias_activation_backward(context, saved, i, dy[i]);
    if (in_float8())
      backward_in_float8(context, saved, i, dy[i], dx, accumulate_dx || i > 0);
    else
      backward_products(context, saved, i, dy[i], dx, accumulate_dx || i > 0);
  }
}

void DenseLinear::backward_products(const Context& context, const Saved& saved, int i, const Tensor& dy,
                                    const Tensor& dx, bool accumulate) const {
  const std::int64_t tokens = saved.x.dim(0);
  run(context, MatrixProduct{.a = saved.x,
                             .b = dy,
                             .c = store_.gradient(weights_[i]),
                             .m = spec_.input_size,
                             .n = spec_.output_size,
                             .k = tokens,
                             .transpose_a = true,
                             .accumulate = true});
  run(context, MatrixProduct{.a = dy,
                             .b = store_.product_value(weights_[i]),
                             .c = dx,
                             .m = tokens,
                             .n = spec_.input_size,
                             .k = spec_.output_size,
                             .transpose_b = true,
                             .accumulate = accumulate});
}

void DenseLinear::backward_in_float8(const Context& context, const Saved& saved, int i, const Tensor& dy,
                                     const Tensor& dx, bool accumulate) const {
  constexpr DType e4m3 = DType::float8_e4m3;
  using Copies = Float8Operands::Copies;
  using Seen = Float8Operands::Seen;
  const std::int64_t tokens = saved.x.dim(0), inputs = spec_.input_size, columns = spec_.output_size;
  const Float8Options options = float8_->options();
  const int w_slot = Float8Slots::b + i, dy_slot = Float8Slots::du + i;
  ArenaScope scope(context.arena);
  const Float8Operands operands(context, scope, float8_->scales(), options);
  const auto dy8 = operands.quantize(dy_slot, dy, tokens, columns, options.gradients, Copies::both);
  {
    ArenaScope inner(context.arena);
    const Float8Operands once(context, inner, float8_->scales(), options);
    const Tensor x =
        once.quantize(Float8Slots::x, saved.x, tokens, inputs, e4m3, Copies::transposed, Seen::again)
            .transposed;
    run(context, Float8Product{.a = x,
                               .b = dy8.transposed,
                               .c = store_.gradient(weights_[i]),
                               .m = inputs,
                               .n = columns,
                               .k = float8_padded(tokens),
                               .scale_a = once.scale(Float8Slots::x),
                               .scale_b = once.scale(dy_slot),
                               .accumulate = true,
                               .type = saved.x.dtype()});
  }
  const Tensor w =
      operands
          .quantize(w_slot, store_.value(weights_[i]), inputs, columns, e4m3, Copies::straight, Seen::again)
          .straight;
  run(context, Float8Product{.a = dy8.straight,
                             .b = w,
                             .c = dx,
                             .m = tokens,
                             .n = inputs,
                             .k = columns,
                             .scale_a = operands.scale(dy_slot),
                             .scale_b = operands.scale(w_slot),
                             .accumulate = accumulate,
                             .type = saved.x.dtype()});
}

std::string DenseLinear::explain(std::int64_t tokens, const MachineModel& /*machine*/) const {
  const double flops = 2e-9 * static_cast<double>(tokens * spec_.input_size * spec_.output_size) * outputs();
  return fmt::format("{}: {}, {} tokens\n  one product for each part: {:.3f} GFLOP\n", spec_.name,
                     shape_text(0), tokens, flops);
}

std::string DenseLinear::shape_text(int /*output*/) const {
  return fmt::format("dense {} x {}", spec_.input_size, spec_.output_size);
}

std::vector<double> DenseLinear::matrix(int output) const {
  return read_tensor(store_.value(weights_[output]), store_.allocator());
}

}  // namespace comera
