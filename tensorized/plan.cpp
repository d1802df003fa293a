#include "tensorized/plan.h"

#include <fmt/format.h>

#include "kernels/core/check.h"

namespace comera {

double seconds_of(const PlanCost& cost, const MachineModel& machine, DType compute) {
  return cost.flops / machine.flops_in(compute) + cost.bytes / machine.bytes_per_second +
         cost.calls * machine.seconds_per_call;
}

namespace {

// Costs of one shape; each function mirrors one in tt_chain.cpp or linear.cpp.
class Costs {
 public:
  Costs(const TTShape& shape, std::int64_t tokens, std::size_t element_size)
      : shape_(shape),
        tokens_(tokens),
        size_(element_size),
        inputs_(shape.input_size()),
        outputs_(shape.output_size()),
        rank_(shape.middle_rank()),
        middle_(static_cast<int>(shape.input_modes.size())) {}

  PlanCost factors_forward() const {
    PlanCost cost = merge();
    cost += product(tokens_, rank_, inputs_);
    cost += product(tokens_, outputs_, rank_);
    return cost;
  }
  PlanCost dense_forward() const {
    PlanCost cost = merge_to_dense();
    cost += product(tokens_, outputs_, inputs_);
    return cost;
  }
  PlanCost modewise_forward() const { return modewise(true, false, false); }

  PlanCost factors_input() const {
    PlanCost cost = merge();
    cost += product(tokens_, rank_, outputs_);
    cost += product(tokens_, inputs_, rank_);
    return cost;
  }
  PlanCost dense_input() const {
    PlanCost cost = merge_to_dense();
    cost += product(tokens_, inputs_, outputs_);
    return cost;
  }
  PlanCost modewise_input() const { return modewise(false, true, false); }

  PlanCost factors_cores() const {
    PlanCost cost = merge();
    cost += product(tokens_, rank_, inputs_);   // xA
    cost += product(tokens_, rank_, outputs_);  // d(xA)
    cost += product(inputs_, rank_, tokens_);
    cost += product(rank_, outputs_, tokens_);
    cost += merge_backward();
    return cost;
  }
  PlanCost dense_cores() const {
    PlanCost cost = merge();
    cost += product(inputs_, outputs_, tokens_);
    cost += product(inputs_, rank_, outputs_);
    cost += product(rank_, outputs_, inputs_);
    cost += merge_backward();
    return cost;
  }
  PlanCost modewise_cores() const { return modewise(true, true, true); }

  // With left and right factors, all three parts share the contraction, xA and d(xA).
  PlanCost fused_factors() const {
    PlanCost cost = factors_forward();
    cost += product(tokens_, rank_, outputs_);
    cost += product(tokens_, inputs_, rank_);
    cost += product(inputs_, rank_, tokens_);
    cost += product(rank_, outputs_, tokens_);
    cost += merge_backward();
    return cost;
  }

 private:
  PlanCost product(double m, double n, double k, double batch = 1) const {
    return {2 * m * n * k * batch, (m * k + k * n + m * n) * batch * static_cast<double>(size_), 1};
  }
  PlanCost scale() const {
    return {static_cast<double>(shape_.core_parameters()),
            2.0 * static_cast<double>(shape_.core_parameters()) * static_cast<double>(size_), shape_.order()};
  }
  // The products of the left chain, then of the right chain.
  template <class Visit>
  void chain(Visit visit) const {
    std::int64_t rows = shape_.mode(0);
    for (int k = 1; k < middle_; ++k) {
      visit(rows, shape_.mode(k) * shape_.rank(k + 1), shape_.rank(k));
      rows *= shape_.mode(k);
    }
    std::int64_t width = shape_.mode(shape_.order() - 1);
    for (int k = shape_.order() - 2; k >= middle_; --k) {
      visit(shape_.rank(k) * shape_.mode(k), width, shape_.rank(k + 1));
      width *= shape_.mode(k);
    }
  }
  PlanCost merge() const {
    PlanCost cost = scale();
    chain([&](double m, double n, double k) { cost += product(m, n, k); });
    return cost;
  }
  PlanCost merge_backward() const {
    PlanCost cost = merge();
    chain([&](double m, double n, double k) {
      cost += product(k, n, m);
      cost += product(m, k, n);
    });
    cost += scale();
    return cost;
  }
  PlanCost merge_to_dense() const {
    PlanCost cost = merge();
    cost += product(inputs_, outputs_, rank_);
    return cost;
  }
  PlanCost modewise(bool forward, bool input_gradient, bool core_gradients) const {
    PlanCost cost = scale();
    std::int64_t rest = inputs_, done = 1;
    for (int k = 0; k < shape_.order(); ++k) {
      const std::int64_t left = shape_.rank(k), mode = shape_.mode(k), right = shape_.rank(k + 1);
      if (k < middle_) {
        rest /= mode;
        if (forward) cost += product(right, rest, left * mode, tokens_);
        if (input_gradient) cost += product(left * mode, rest, right, tokens_);
        if (core_gradients) cost += product(left * mode, right, rest, tokens_);
      } else {
        if (forward) cost += product(tokens_ * done, mode * right, left);
        if (input_gradient) cost += product(tokens_ * done, left, mode * right);
        if (core_gradients) cost += product(left, mode * right, tokens_ * done);
        done *= mode;
      }
    }
    // A batch of small products has a larger overhead than one call.
    const int batched =
        (forward ? middle_ : 0) + (input_gradient ? middle_ : 0) + (core_gradients ? middle_ : 0);
    cost.calls += static_cast<int>(std::min<std::int64_t>(batched * (tokens_ - 1) / 8, 1 << 24));
    return cost;
  }

  const TTShape& shape_;
  std::int64_t tokens_;
  std::size_t size_;
  std::int64_t inputs_, outputs_, rank_;
  int middle_;
};

constexpr PlanPart all_parts[] = {PlanPart::forward, PlanPart::input_gradient, PlanPart::core_gradient};
constexpr PlanKind all_ways[] = {PlanKind::factors, PlanKind::dense, PlanKind::modewise};

const char* name_of(PlanPart part) {
  constexpr const char* names[] = {"forward", "input gradient", "core gradient"};
  return names[static_cast<int>(part)];
}

}  // namespace

PlanCost plan_cost(const TTShape& shape, std::int64_t tokens, PlanPart part, PlanKind way,
                   std::size_t element_size) {
  const Costs costs(shape, tokens, element_size);
  switch (way) {
    case PlanKind::factors:
      return part == PlanPart::forward          ? costs.factors_forward()
             : part == PlanPart::input_gradient ? costs.factors_input()
                                                : costs.factors_cores();
    case PlanKind::dense:
      return part == PlanPart::forward          ? costs.dense_forward()
             : part == PlanPart::input_gradient ? costs.dense_input()
                                                : costs.dense_cores();
    case PlanKind::modewise:
      return part == PlanPart::forward          ? costs.modewise_forward()
             : part == PlanPart::input_gradient ? costs.modewise_input()
                                                : costs.modewise_cores();
    case PlanKind::automatic:
      break;
  }
  throw_error("plan_cost: choose a way first");
}

LinearPlan choose_plan(const MachineModel& machine, std::span<const TTShape> group, std::int64_t tokens,
                       PlanKind wanted, DType compute) {
  if (wanted != PlanKind::automatic) return {wanted, wanted, wanted};
  PlanKind best[3] = {};
  double total = 0;
  for (PlanPart part : all_parts) {
    double least = 0;
    for (PlanKind way : all_ways) {
      if (way == PlanKind::modewise && compute == DType::bfloat16) continue;
      PlanCost cost;
      for (const TTShape& shape : group) cost += plan_cost(shape, tokens, part, way);
      const double seconds = seconds_of(cost, machine, compute);
      if (way != PlanKind::factors && seconds >= least) continue;
      least = seconds;
      best[static_cast<int>(part)] = way;
    }
    total += least;
  }
  PlanCost fused;
  for (const TTShape& shape : group) fused += Costs(shape, tokens, 4).fused_factors();
  if (seconds_of(fused, machine, compute) <= total) return {};
  return {best[0], best[1], best[2]};
}

std::string explain_plan(const MachineModel& machine, const std::string& layer, const TTShape& shape,
                         std::int64_t tokens, const LinearPlan& plan, DType compute) {
  const PlanKind chosen[] = {plan.forward, plan.input_gradient, plan.core_gradient};
  std::string text = fmt::format("{}: {}, {} tokens\n", layer, shape.text(), tokens);
  text += fmt::format("  assumed: {:.0f} GFLOP/s, {:.0f} GB/s, {:.1f} us a call; nothing is measured\n",
                      machine.flops_in(compute) * 1e-9, machine.bytes_per_second * 1e-9,
                      machine.seconds_per_call * 1e6);
  text += fmt::format("  {:<16}{:<10}{:>12}{:>12}{:>8}{:>12}\n", "part", "way", "GFLOP", "MiB", "calls",
                      "est. ms");
  for (PlanPart part : all_parts)
    for (PlanKind way : all_ways) {
      const PlanCost cost = plan_cost(shape, tokens, part, way);
      text += fmt::format("{} {:<16}{:<10}{:>12.4f}{:>12.2f}{:>8}{:>12.3f}\n",
                          chosen[static_cast<int>(part)] == way ? " *" : "  ", name_of(part), name_of(way),
                          cost.flops * 1e-9, cost.bytes / 1048576, cost.calls,
                          seconds_of(cost, machine, compute) * 1e3);
    }
  if (plan.forward == PlanKind::factors && plan.input_gradient == PlanKind::factors &&
      plan.core_gradient == PlanKind::factors) {
    const PlanCost cost = Costs(shape, tokens, 4).fused_factors();
    text += fmt::format(
        "  all by left and right factors, sharing the contraction, xA and d(xA): {:.4f} GFLOP, {:.2f} MiB, "
        "{} calls, {:.3f} ms\n",
        cost.flops * 1e-9, cost.bytes / 1048576, cost.calls, seconds_of(cost, machine, compute) * 1e3);
  }
  return text;
}

}  // namespace comera
