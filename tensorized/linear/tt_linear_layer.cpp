#include "tensorized/linear/tt_linear_layer.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/tensor_trains/diagonal.h"
#include "tensorized/fused/merging.h"
#include "tensorized/linear/in_type.h"

namespace comera {

TTLinear::TTLinear(ParameterStore& store, const Spec& spec, std::vector<TTShape> shapes, PlanKind plan)
    : Linear(store, spec), shapes_(std::move(shapes)), plan_(plan) {
  COMERA_CHECK(shapes_.size() == spec.outputs.size(), "{}: {} shapes for {} outputs", spec.name,
               shapes_.size(), spec.outputs.size());
  for (int i = 0; i < outputs(); ++i) {
    shapes_[i].validate(output_name(i), spec.input_size, spec.output_size);
    if (shapes_[i].removed()) {
      trains_.push_back({.shape = shapes_[i], .cores = {}, .gates = {}});
    } else {
      trains_.push_back(TTCores::add(store, output_name(i), shapes_[i]));
      live_.push_back(i);
      live_shapes_.push_back(shapes_[i]);
    }
    add_diagonal(store, i);
    add_bias(store, i);
  }
}

bool TTLinear::any_diagonal() const {
  return std::ranges::any_of(diagonals_, [](const auto& diagonal) { return diagonal.has_value(); });
}

void TTLinear::add_diagonal(ParameterStore& store, int i) {
  const std::int64_t inputs = spec_.input_size, outputs = spec_.output_size, size = std::max(inputs, outputs);
  // Each output is the sum of this many inputs; it begins with half of their deviation.
  const double folded = std::max(1.0, static_cast<double>(inputs) / static_cast<double>(outputs));
  diagonals_.push_back(
      shapes_[i].diagonal
          ? std::optional(store.add({.name = output_name(i) + ".diagonal",
                                     .role = ParameterRole::dense,
                                     .shape = {size},
                                     .decays = false,
                                     .initializer = {Initializer::Kind::constant, 0.5 / std::sqrt(folded)}}))
          : std::nullopt);
}

void TTLinear::diagonal_forward(const Context& context, const Tensor& x, int i, const Tensor& u) const {
  if (diagonals_[i]) run(context, DiagonalForward{.x = x, .diagonal = store_.value(*diagonals_[i]), .u = u});
}

void TTLinear::diagonal_backward(const Context& context, const Tensor& x, int i, const Tensor& du,
                                 const Tensor& dx) const {
  if (diagonals_[i])
    run(context, DiagonalBackward{.x = x,
                                  .diagonal = store_.value(*diagonals_[i]),
                                  .du = du,
                                  .dx = dx,
                                  .ddiagonal = store_.gradient(*diagonals_[i])});
}

std::vector<double> TTLinear::matrix(int output) const {
  std::vector<double> w = densify(store_, trains_[output]);
  if (!diagonals_[output]) return w;
  const std::vector<double> d = read_tensor(store_.value(*diagonals_[output]), store_.allocator());
  const std::int64_t inputs = spec_.input_size, outputs = spec_.output_size;
  for (std::int64_t k = 0; k < std::ssize(d); ++k) w[k % inputs * outputs + k % outputs] += d[k];
  return w;
}

std::int64_t TTLinear::total_columns(bool float8) const {
  std::int64_t total = 0;
  for (const int i : live_) total += columns(i, float8);
  return total;
}

Float8Outputs TTLinear::float8_outputs() const {
  Float8Outputs slots = every_output;
  std::ranges::copy(live_, slots.begin());
  return slots;
}

PackedTensors TTLinear::packed_factors(bool float8) const {
  std::vector<Shape> shapes{{spec_.input_size, total_columns(float8)}};
  for (const int i : live_) shapes.push_back({rows(i, float8), spec_.output_size});
  return PackedTensors(std::move(shapes));
}

MergedFactors TTLinear::unpacked(const PackedTensors& packed, const Tensor& whole) const {
  const std::vector<Tensor> parts = packed.in(whole);
  MergedFactors factors{.a = parts[0], .b = {}};
  for (std::size_t at = 0; at < live_.size(); ++at) factors.b[live_[at]] = parts[1 + at];
  return factors;
}

TTFactorsForward TTLinear::factors_in(const PackedTensors& packed, const Tensor& whole, bool float8) const {
  const MergedFactors to = unpacked(packed, whole);
  TTFactorsForward operation;
  std::int64_t column = 0;
  for (const int i : live_) {
    operation.factors.push_back(
        factors_of(store_, trains_[i], to.a.from(column), to.a.dim(1), columns(i, float8), to.b[i]));
    operation.factors.back().place = spec_.name;
    column += columns(i, float8);
  }
  return operation;
}

MergedFactors TTLinear::own_factors(const Context& context, DType compute, bool float8) const {
  const PackedTensors packed = packed_factors(float8);
  const Tensor whole = context.arena.saved({packed.elements()}, float8 ? store_.dtype() : compute);
  ArenaScope scope(context.arena);
  const InMasterType computed(context, scope, whole);
  run(context, factors_in(packed, computed.tensor(), float8));
  computed.write_back();
  return unpacked(packed, whole);
}

MergedFactors TTLinear::merge(const Context& context, std::int64_t tokens, Merging& merging) const {
  if (context.backend.device().kind != DeviceKind::cuda || live_.empty()) return {};
  const LinearPlan plan = plan_for(tokens, context.backend.machine());
  if (!all_by_factors(plan)) return {};
  const bool narrow = in_float8(plan);
  const PackedTensors packed = packed_factors(narrow);
  const Merging::Operands whole = merging.take(packed.elements(), narrow ? store_.dtype() : store_.compute());
  for (const TTFactorsForward::Factors& one : factors_in(packed, whole.computed, narrow).factors)
    merging.add(one);
  merging.will_have_gradients(packed.elements());
  return unpacked(packed, whole.kept);
}

LinearPlan TTLinear::plan_for(std::int64_t tokens, const MachineModel& machine) const {
  return choose_plan(machine, live_shapes_, tokens, plan_, store_.compute());
}

Tensor TTLinear::merge_to_dense(const Context& context, ArenaScope& scope, int i) const {
  const DType dtype = store_.dtype();
  const Tensor a = scope.tensor({spec_.input_size, rank(i)}, dtype);
  const Tensor b = scope.tensor({rank(i), spec_.output_size}, dtype);
  merge_factors(context, store_, trains_[i], a, rank(i), b);
  const Tensor w = scope.tensor({spec_.input_size, spec_.output_size}, dtype);
  run(context,
      MatrixProduct{.a = a, .b = b, .c = w, .m = spec_.input_size, .n = spec_.output_size, .k = rank(i)});
  return in_type(context, scope, w, store_.compute());
}

Linear::Saved TTLinear::run_forward(const Context& context, const Tensor& x, const Pass& pass) const {
  const std::int64_t tokens = x.dim(0);
  const LinearPlan plan = pass.merged.a ? LinearPlan{} : plan_for(tokens, context.backend.machine());
  Saved saved = begin(context, x, pass);
  auto& kept = saved.kept.emplace<Activations>();
  kept.plan = plan;
  for (int i = 0; i < outputs(); ++i)
    if (shapes_[i].removed()) {  // the bias in every row, and the diagonal
      run(context, Fill{.x = saved.u[i], .value = 0});
      diagonal_forward(context, x, i, saved.u[i]);
      add_bias_and_activate(context, saved, i);
    }
  if (live_.empty()) return saved;
  if (plan.forward == PlanKind::factors) {
    forward_by_factors(context, saved, kept);
    return saved;
  }
  for (const int i : live_) {
    ArenaScope scope(context.arena);
    if (plan.forward == PlanKind::dense && !diagonals_[i]) {
      multiply(context, saved, i, merge_to_dense(context, scope, i));
      continue;
    }
    if (plan.forward == PlanKind::dense)
      run(context, MatrixProduct{.a = x,
                                 .b = merge_to_dense(context, scope, i),
                                 .c = saved.u[i],
                                 .m = tokens,
                                 .n = spec_.output_size,
                                 .k = spec_.input_size});
    else
      modewise_forward(context, store_, trains_[i], x, saved.u[i]);
    diagonal_forward(context, x, i, saved.u[i]);
    add_bias_and_activate(context, saved, i);
  }
  return saved;
}

void TTLinear::forward_by_factors(const Context& context, Saved& saved, Activations& kept) const {
  const Tensor& x = saved.x;
  const bool narrow = in_float8(kept.plan);
  kept.factors = saved.pass.merged.a ? saved.pass.merged : own_factors(context, x.dtype(), narrow);
  kept.xa = context.arena.saved({x.dim(0), total_columns(narrow)}, x.dtype());
  TTLinearForward operation{.x = x, .a = kept.factors.a, .xa = kept.xa, .outputs = 0, .output = {}};
  std::int64_t column = 0;
  for (const int i : live_) {
    operation.output[operation.outputs++] = {
        .column = column,
        .b = kept.factors.b[i],
        .bias = saved.pass.biased ? store_.value(biases_[i]) : Tensor(),
        .diagonal = diagonals_[i] ? store_.value(*diagonals_[i]) : Tensor(),
        .rounded_bias = store_.product_value(biases_[i]),
        .activation = saved.pass.activation,
        .u = saved.u[i],
        .y = saved.y[i]};
    column += columns(i, narrow);
  }
  if (narrow)
    run(context, Float8LinearForward{.linear = operation,
                                     .scales = float8_->scales(),
                                     .options = float8_->options(),
                                     .outputs = float8_outputs()});
  else
    run(context, operation);
}

void TTLinear::run_backward(const Context& context, const Saved& saved,
                            const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                            bool accumulate_dx, MergedGradients* merged) const {
  const Activations& kept = saved.kept.get<Activations>();
  const bool by_factors = all_by_factors(kept.plan);
  // With left and right factors both are part of the operation; a removed output only has a bias gradient.
  for (int i = 0; i < outputs(); ++i) {
    const bool matters = removed(i) ? saved.pass.biased : shapes_[i].removed() || !by_factors;
    if (matters) bias_activation_backward(context, saved, i, dy[i]);
  }
  if (live_.empty()) {
    if (!accumulate_dx) run(context, Fill{.x = dx, .value = 0});
  } else if (by_factors) {
    backward_by_factors(context, saved, kept, dy, dx, accumulate_dx, merged);
  } else {
    for (const int i : live_) {
      core_gradient(context, kept.plan.core_gradient, i, saved.x, dy[i]);
      input_gradient(context, kept.plan.input_gradient, i, dy[i], dx, accumulate_dx || i != live_.front());
    }
  }
  // Those of live outputs are part of the operation by factors.
  for (int i = 0; i < outputs(); ++i)
    if (shapes_[i].removed() || !by_factors) diagonal_backward(context, saved.x, i, dy[i], dx);
}

void TTLinear::backward_by_factors(const Context& context, const Saved& saved, const Activations& kept,
                                   const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                                   bool accumulate_dx, MergedGradients* merged) const {
  const bool narrow = in_float8(kept.plan), waits = merged != nullptr && saved.pass.merged.a;
  ArenaScope scope(context.arena);
  const PackedTensors packed = packed_factors(narrow);
  std::vector<Tensor> gradients;
  if (waits) {
    gradients = merged->zeros(packed);
  } else {
    const Tensor zeros = scope.tensor({packed.elements()}, store_.dtype());
    run(context, Fill{.x = zeros, .value = 0});
    gradients = packed.in(zeros);
  }
  const Tensor& da = gradients[0];
  TTLinearBackward operation{.x = saved.x,
                             .a = kept.factors.a,
                             .xa = kept.xa,
                             .da = da,
                             .dx = dx,
                             .accumulate_dx = accumulate_dx,
                             .outputs = 0,
                             .output = {},
                             .dxa = {}};
  if (waits && !narrow && merged->later() != nullptr) {
    operation.later = merged->later();
    operation.dxa = merged->operand(scope, kept.xa.shape(), kept.xa.dtype());
  }
  std::int64_t column = 0;
  for (std::size_t at = 0; at < live_.size(); ++at) {
    const int i = live_[at];
    operation.output[operation.outputs++] = {
        .column = column,
        .b = kept.factors.b[i],
        .db = gradients[1 + at],
        .dbias = saved.pass.biased ? store_.gradient(biases_[i]) : Tensor(),
        .diagonal = diagonals_[i] ? store_.value(*diagonals_[i]) : Tensor(),
        .ddiagonal = diagonals_[i] ? store_.gradient(*diagonals_[i]) : Tensor(),
        .activation = saved.pass.activation,
        .u = saved.u[i],
        .y = saved.y[i],
        .dy = dy[i]};
    column += columns(i, narrow);
  }
  if (narrow)
    run(context, Float8LinearBackward{.linear = operation,
                                      .scales = float8_->scales(),
                                      .options = float8_->options(),
                                      .outputs = float8_outputs()});
  else
    run(context, operation);
  TTFactorsBackward to_cores;
  for (std::size_t at = 0; at < live_.size(); ++at) {
    to_cores.factors.push_back(factor_gradients_of(store_, trains_[live_[at]],
                                                   da.from(operation.output[at].column), da.dim(1),
                                                   operation.output[at].db.rows(0, rank(live_[at]))));
    to_cores.factors.back().place = spec_.name;
    if (waits) merged->add(to_cores.factors.back());
  }
  if (!waits) run(context, to_cores);
}

void TTLinear::input_gradient(const Context& context, PlanKind way, int i, const Tensor& dy, const Tensor& dx,
                              bool accumulate) const {
  if (way == PlanKind::modewise)  // dx serves as x, which is read only for gradients of cores
    return modewise_backward(context, store_, trains_[i], dx, dy, dx, accumulate, false);
  ArenaScope scope(context.arena);
  const std::int64_t tokens = dy.dim(0), inputs = spec_.input_size, outputs = spec_.output_size;
  if (way == PlanKind::dense) {
    const Tensor w = merge_to_dense(context, scope, i);
    run(context, MatrixProduct{.a = dy,
                               .b = w,
                               .c = dx,
                               .m = tokens,
                               .n = inputs,
                               .k = outputs,
                               .transpose_b = true,
                               .accumulate = accumulate});
    return;
  }
  const Tensor master_a = scope.tensor({inputs, rank(i)}, store_.dtype());
  const Tensor master_b = scope.tensor({rank(i), outputs}, store_.dtype());
  merge_factors(context, store_, trains_[i], master_a, rank(i), master_b);
  const Tensor a = in_type(context, scope, master_a, dy.dtype());
  const Tensor b = in_type(context, scope, master_b, dy.dtype());
  const Tensor dxa = scope.tensor({tokens, rank(i)}, dy.dtype());
  run(context,
      MatrixProduct{.a = dy, .b = b, .c = dxa, .m = tokens, .n = rank(i), .k = outputs, .transpose_b = true});
  run(context, MatrixProduct{.a = dxa,
                             .b = a,
                             .c = dx,
                             .m = tokens,
                             .n = inputs,
                             .k = rank(i),
                             .transpose_b = true,
                             .accumulate = accumulate});
}

void TTLinear::core_gradient(const Context& context, PlanKind way, int i, const Tensor& x,
                             const Tensor& dy) const {
  if (way == PlanKind::modewise)
    return modewise_backward(context, store_, trains_[i], x, dy, Tensor(), false, true);
  ArenaScope scope(context.arena);
  const std::int64_t tokens = dy.dim(0), inputs = spec_.input_size, outputs = spec_.output_size, r = rank(i);
  const DType dtype = store_.dtype();
  const Tensor a = scope.tensor({inputs, r}, dtype), b = scope.tensor({r, outputs}, dtype);
  const Tensor da = scope.tensor({inputs, r}, dtype), db = scope.tensor({r, outputs}, dtype);
  merge_factors(context, store_, trains_[i], a, r, b);
  if (way == PlanKind::dense) {
    const Tensor dw = scope.tensor({inputs, outputs}, dtype);
    run(context,
        MatrixProduct{.a = x, .b = dy, .c = dw, .m = inputs, .n = outputs, .k = tokens, .transpose_a = true});
    run(context,
        MatrixProduct{.a = dw, .b = b, .c = da, .m = inputs, .n = r, .k = outputs, .transpose_b = true});
    run(context,
        MatrixProduct{.a = a, .b = dw, .c = db, .m = r, .n = outputs, .k = inputs, .transpose_a = true});
  } else {
    const Tensor xa = scope.tensor({tokens, r}, x.dtype()), dxa = scope.tensor({tokens, r}, x.dtype());
    run(context,
        MatrixProduct{
            .a = x, .b = in_type(context, scope, a, x.dtype()), .c = xa, .m = tokens, .n = r, .k = inputs});
    run(context, MatrixProduct{.a = dy,
                               .b = in_type(context, scope, b, x.dtype()),
                               .c = dxa,
                               .m = tokens,
                               .n = r,
                               .k = outputs,
                               .transpose_b = true});
    run(context,
        MatrixProduct{.a = x, .b = dxa, .c = da, .m = inputs, .n = r, .k = tokens, .transpose_a = true});
    run(context,
        MatrixProduct{.a = xa, .b = dy, .c = db, .m = r, .n = outputs, .k = tokens, .transpose_a = true});
  }
  merge_factors_backward(context, store_, trains_[i], da, r, db);
}

std::vector<RankedLayer> TTLinear::ranked_layers() const {
  std::vector<RankedLayer> list;
  for (const int i : live_)
    list.push_back({.name = output_name(i),
                    .cores = trains_[i].cores,
                    .gates = trains_[i].gates,
                    .has_diagonal = diagonals_[i].has_value()});
  return list;
}

std::string TTLinear::explain(std::int64_t tokens, const MachineModel& machine) const {
  const LinearPlan plan = plan_for(tokens, machine);
  std::string text;
  for (int i = 0; i < outputs(); ++i)
    text += shapes_[i].removed()
                ? fmt::format("{}: {}, only the bias{} is computed\n", output_name(i), shapes_[i].text(),
                              diagonals_[i] ? " and the diagonal" : "")
                : explain_plan(machine, output_name(i), shapes_[i], tokens, plan, store_.compute());
  return text;
}

}  // namespace comera
