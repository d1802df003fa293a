#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/machine.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/linear/kinds.h"

namespace comera {

// The cost of one way to evaluate a layer or a part of it.
struct PlanCost {
  double flops = 0;
  double bytes = 0;  // memory traffic, each operand of each product once
  int calls = 0;

  PlanCost& operator+=(const PlanCost& other) {
    flops += other.flops;
    bytes += other.bytes;
    calls += other.calls;
    return *this;
  }
};

// The time that this takes on a machine whose products are computed in that type.
double seconds_of(const PlanCost& cost, const MachineModel& machine, DType compute);

// The ways: `factors` contracts the tensor train into its left and right factors A and B and multiplies twice
// (the paper's choice for many tokens); `dense` contracts it into W; `modewise` contracts the input with one
// mode after the other, for few tokens.
enum class PlanPart : std::uint8_t { forward, input_gradient, core_gradient };
PlanCost plan_cost(const TTShape& shape, std::int64_t tokens, PlanPart part, PlanKind way,
                   std::size_t element_size = 4);

struct LinearPlan {
  PlanKind forward = PlanKind::factors;
  PlanKind input_gradient = PlanKind::factors;
  PlanKind core_gradient = PlanKind::factors;
};

inline bool all_by_factors(const LinearPlan& plan) {
  return plan.forward == PlanKind::factors && plan.input_gradient == PlanKind::factors &&
         plan.core_gradient == PlanKind::factors;
}

// What a fused operation says that reads factors, if the planner decides otherwise.
inline constexpr const char* not_by_factors = "the planner does not evaluate all layers by their factors";

// The cheapest way on a machine (Backend::machine) for each part of a group of tensor trains with one input.
// The whole group is evaluated the same way; `wanted` forces one way for all. Never modewise in bfloat16,
// which would round after every mode.
LinearPlan choose_plan(const MachineModel& machine, std::span<const TTShape> group, std::int64_t tokens,
                       PlanKind wanted = PlanKind::automatic, DType compute = DType::float32);
inline LinearPlan choose_plan(const MachineModel& machine, const TTShape& shape, std::int64_t tokens,
                              PlanKind wanted = PlanKind::automatic, DType compute = DType::float32) {
  return choose_plan(machine, std::span(&shape, 1), tokens, wanted, compute);
}
// A table of all ways and parts with work, bytes, calls and estimated time; the planned ones are marked.
std::string explain_plan(const MachineModel& machine, const std::string& layer, const TTShape& shape,
                         std::int64_t tokens, const LinearPlan& plan, DType compute = DType::float32);

}  // namespace comera
