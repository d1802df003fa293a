#include "tensorized/plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/ops/cpu_machine.h"

namespace comera {
namespace {

const TTShape attention{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};

TEST(Plan, ManyTokensAtLowRankMultiplyByFactors) {
  const LinearPlan plan = choose_plan(cpu_machine, attention, 4096);
  EXPECT_EQ(plan.forward, PlanKind::factors);
  EXPECT_EQ(plan.input_gradient, PlanKind::factors);
  EXPECT_EQ(plan.core_gradient, PlanKind::factors);
}

TEST(Plan, OneTokenContractsModeByMode) {
  EXPECT_EQ(choose_plan(cpu_machine, attention, 1).forward, PlanKind::modewise);
}

TEST(Plan, HighRankAndManyTokensMergeToDense) {
  const TTShape shape{{8, 8}, {8, 8}, {8, 60, 8}};
  EXPECT_EQ(choose_plan(cpu_machine, shape, 8192).forward, PlanKind::dense);
}

// The estimates behind the choices: two products with A and B at rank 30 do a thirteenth of the dense work.
TEST(Plan, CountsWork) {
  const double dense = 2.0 * 4096 * 768 * 768;
  const PlanCost factors = plan_cost(attention, 4096, PlanPart::forward, PlanKind::factors);
  EXPECT_GT(dense / factors.flops, 11);
  EXPECT_LT(dense / factors.flops, 13);
  const PlanCost merged = plan_cost(attention, 4096, PlanPart::forward, PlanKind::dense);
  EXPECT_GT(merged.flops, dense);
}

TEST(Plan, AForcedWayIsTaken) {
  EXPECT_EQ(choose_plan(cpu_machine, attention, 4096, PlanKind::modewise).core_gradient, PlanKind::modewise);
}

// One plan serves a group, and what matters is what all of it costs together: of these two trains, the first
// alone would be merged into a matrix.
TEST(Plan, AGroupIsCostedAsAWhole) {
  const TTShape high{{8, 8}, {8, 8}, {8, 60, 8}}, low{{8, 8}, {8, 8}, {2, 2, 2}};
  EXPECT_EQ(choose_plan(cpu_machine, high, 8192).forward, PlanKind::dense);
  EXPECT_EQ(choose_plan(cpu_machine, std::vector{high, low, low}, 8192).forward, PlanKind::factors);
  EXPECT_EQ(choose_plan(cpu_machine, std::vector{low, low, high}, 8192).forward, PlanKind::factors);
  EXPECT_EQ(choose_plan(cpu_machine, std::vector{high, high, high}, 8192).forward, PlanKind::dense);
}

// Where products cost next to nothing, one dense product is better than several small ones; where calls do,
// the fewest are best.
TEST(Plan, DependsOnTheMachine) {
  const TTShape shape{{8, 8}, {8, 8}, {8, 30, 8}};
  MachineModel machine = cpu_machine;
  machine.flops_per_second = 1e9;
  EXPECT_EQ(choose_plan(machine, shape, 4096).forward, PlanKind::factors);
  machine.flops_per_second = 1e15;
  EXPECT_EQ(choose_plan(machine, shape, 4096).forward, PlanKind::dense);
  // Another type has a rate of its own.
  machine.narrow_flops_per_second = 1e9;
  EXPECT_EQ(choose_plan(machine, shape, 4096, PlanKind::automatic, DType::bfloat16).forward,
            PlanKind::factors);
}

TEST(Plan, ExplainsItsChoice) {
  const std::string text =
      explain_plan(cpu_machine, "layer", attention, 4096, choose_plan(cpu_machine, attention, 4096));
  EXPECT_NE(text.find("[12,8,8 | 8,8,12] ranks 12,30,30,30,12"), std::string::npos);
  EXPECT_NE(text.find(" * forward         factors"), std::string::npos) << text;
}

}  // namespace
}  // namespace comera
