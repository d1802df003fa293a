#include "tensorized/linear/low_rank_linear.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/tensor_trains/tt_linear.h"
#include "tensorized/decomposition/densify.h"

namespace comera {

LowRankLinear::LowRankLinear(ParameterStore& store, const Spec& spec, std::int64_t rank)
    : Linear(store, spec), rank_(rank) {
  const std::int64_t n = spec.input_size, m = spec.output_size;
  COMERA_CHECK(rank >= 1 && rank <= std::min(n, m), "{}: a matrix {} x {} has no factors of rank {}",
               spec.name, n, m, rank);
  // An entry of U V is a sum of `rank` products, and should have the variance 1 / (n + m).
  const double deviation = std::pow(static_cast<double>(rank * (n + m)), -0.25);
  const auto factor = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    return store.add({.name = name,
                      .role = ParameterRole::dense,
                      .shape = {rows, columns},
                      .decays = true,
                      .initializer = {Initializer::Kind::normal, deviation},
                      .matrix_rows = rows});
  };
  for (int i = 0; i < outputs(); ++i) {
    left_.push_back(factor(output_name(i) + ".u", n, rank));
    right_.push_back(factor(output_name(i) + ".v", rank, m));
    add_bias(store, i);
  }
}

// The operation for a tensor train's left and right factors is exactly this.
Linear::Saved LowRankLinear::run_forward(const Context& context, const Tensor& x, const Pass& pass) const {
  Saved saved = begin(context, x, pass);
  auto& kept = saved.kept.emplace<FirstProducts>();
  for (int i = 0; i < outputs(); ++i) {
    kept.xa[i] = context.arena.saved({x.dim(0), rank_}, x.dtype());
    TTLinearForward operation{
        .x = x, .a = store_.product_value(left_[i]), .xa = kept.xa[i], .outputs = 1, .output = {}};
    operation.output[0] = {.b = store_.product_value(right_[i]),
                           .bias = pass.biased ? store_.value(biases_[i]) : Tensor(),
                           .rounded_bias = store_.product_value(biases_[i]),
                           .activation = pass.activation,
                           .u = saved.u[i],
                           .y = saved.y[i]};
    run(context, operation);
  }
  return saved;
}

void LowRankLinear::run_backward(const Context& context, const Saved& saved,
                                 const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                                 bool accumulate_dx, MergedGradients* /*merged*/) const {
  const auto& kept = saved.kept.get<FirstProducts>();
  for (int i = 0; i < outputs(); ++i) {
    TTLinearBackward operation{.x = saved.x,
                               .a = store_.product_value(left_[i]),
                               .xa = kept.xa[i],
                               .da = store_.gradient(left_[i]),
                               .dx = dx,
                               .accumulate_dx = accumulate_dx || i > 0,
                               .outputs = 1,
                               .output = {},
                               .dxa = {}};
    operation.output[0] = {.b = store_.product_value(right_[i]),
                           .db = store_.gradient(right_[i]),
                           .dbias = saved.pass.biased ? store_.gradient(biases_[i]) : Tensor(),
                           .activation = saved.pass.activation,
                           .u = saved.u[i],
                           .y = saved.y[i],
                           .dy = dy[i]};
    run(context, operation);
  }
}

std::string LowRankLinear::explain(std::int64_t tokens, const MachineModel& /*machine*/) const {
  const std::int64_t sizes = rank_ * (spec_.input_size + spec_.output_size) * outputs();
  return fmt::format("{}: {}, {} tokens\n  two products for each part: {:.3f} GFLOP\n", spec_.name,
                     shape_text(0), tokens, 2e-9 * static_cast<double>(tokens * sizes));
}

std::string LowRankLinear::shape_text(int /*output*/) const {
  return fmt::format("low rank {} x {} x {}", spec_.input_size, rank_, spec_.output_size);
}

std::vector<double> LowRankLinear::matrix(int output) const {
  return matrix_product(read_tensor(store_.value(left_[output]), store_.allocator()),
                        read_tensor(store_.value(right_[output]), store_.allocator()), spec_.input_size,
                        rank_, spec_.output_size);
}

}  // namespace comera
