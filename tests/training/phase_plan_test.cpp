#include "training/phase_plan.h"

#include <gmock/gmock.h>

#include "kernels/core/check.h"

namespace comera::test {
namespace {

Recipe two_phases() {
  Recipe recipe;
  recipe.phases.resize(2);
  recipe.phases[0].steps = 40;
  recipe.phases[1].epochs = 1.5;
  recipe.phases[1].packs_per_step = 4;
  return recipe;
}

TEST(PhasePlan, CountsStepsOfEpochsByTheirPacks) {
  std::vector<std::int64_t> asked;
  const PhasePlan plan(two_phases(), [&](std::int64_t phase) {
    asked.push_back(phase);
    return 30;
  });
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));  // 1.5 × 30 packs, 4 a step, rounded up
  EXPECT_EQ(plan.total(), 52);
  EXPECT_THAT(asked, testing::ElementsAre(1)) << "counting packs may take a pass over the data";
}

TEST(PhasePlan, AnEpochHasAStepHoweverFewPacks) {
  const PhasePlan plan(two_phases(), [](std::int64_t) { return 1; });
  EXPECT_EQ(plan.steps(1), 1);
}

TEST(PhasePlan, AWarmUpLongerThanItsPhaseIsRefused) {
  Recipe recipe = two_phases();
  recipe.phases[1].warmup_steps = 13;
  EXPECT_THAT([&] { PhasePlan(recipe, [](std::int64_t) { return 30; }); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "phase.1.warmup_steps = 13 is more than the 12 steps that phase.1.epochs = 1.5 gives")));
}

TEST(PhasePlan, APhaseOfEpochsKeepsTheStepsItWasBegunWith) {
  const Recipe recipe = two_phases();
  PhasePlan plan(recipe, [](std::int64_t) { return 60; });  // more data than then
  EXPECT_EQ(plan.steps(1), 23);
  plan.keep_begun({40, 12}, recipe);
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));
  Recipe other = recipe;
  other.phases[1].epochs = 3;
  PhasePlan longer(other, [](std::int64_t) { return 30; });
  longer.keep_begun({40, 12}, recipe);
  EXPECT_EQ(longer.steps(1), 23) << "the recipe asks for more epochs now";
  PhasePlan more_phases(recipe, [](std::int64_t) { return 30; });
  more_phases.keep_begun({40}, recipe);
  EXPECT_EQ(more_phases.steps(1), 12);
}

TEST(PhasePlan, EvaluationsAreSpreadOverEpochs) {
  Recipe recipe = two_phases();
  recipe.run.evaluation_epochs = 0.5;
  const PhasePlan plan(recipe, [](std::int64_t) { return 28; });  // 7 steps an epoch
  std::vector<std::int64_t> ends;
  for (std::int64_t step = 1; step <= 14; ++step)
    if (plan.ends_evaluation_epoch(1, step)) ends.push_back(step);
  EXPECT_THAT(ends, testing::ElementsAre(4, 7, 11, 14));
  recipe.run.evaluation_epochs = 0;
  const PhasePlan without(recipe, [](std::int64_t) { return 28; });
  EXPECT_FALSE(without.ends_evaluation_epoch(1, 7));
}

}  // namespace
}  // namespace comera::test
