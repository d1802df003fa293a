#include "training/run/phase_plan.h"

#include <gmock/gmock.h>

#include "kernels/core/check.h"
#include "training/run/phase.h"

namespace comera::test {
namespace {

Recipe two_phases() {
  Recipe recipe;
  recipe.phases.resize(2);
  recipe.phases[0].steps = 40;
  recipe.phases[1].epochs = 1.5;
  recipe.phases[1].micro_batches_per_step = 4;
  return recipe;
}

PhaseSection with_warmup(std::int64_t steps) {
  PhaseSection phase;
  phase.warmup_steps = steps;
  return phase;
}

TEST(PhasePlan, CountsStepsOfEpochsByTheirPacks) {
  std::vector<std::int64_t> asked;
  const PhasePlan plan(two_phases(), [&](std::int64_t phase) {
    asked.push_back(phase);
    return 30;
  });
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));  // 1.5 × 30 micro-batches, 4 a step, rounded up
  EXPECT_EQ(plan.total(), 52);
  EXPECT_THAT(asked, testing::ElementsAre(1)) << "counting micro-batches may take a pass over the data";
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
                  "phase.1.warmup_steps = 13 is more than the 12 steps of phase.1.epochs = 1.5")));
}

TEST(PhasePlan, AWarmUpThatReachesIntoTheDecayIsRefused) {
  Recipe recipe = two_phases();
  recipe.phases[1].schedule = ScheduleKind::warmup_stable_decay;
  recipe.phases[1].decay_share = 0.5;
  recipe.phases[1].warmup_steps = 6;
  EXPECT_EQ(PhasePlan(recipe, [](std::int64_t) { return 30; }).steps(1), 12);
  recipe.phases[1].warmup_steps = 7;
  EXPECT_THAT(
      [&] { PhasePlan(recipe, [](std::int64_t) { return 30; }); },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr(
          "phase.1.decay_share = 0.5 begins its decay before phase.1.warmup_steps = 7 end, in the 12")));
}

TEST(PhasePlan, APhaseOfEpochsKeepsTheStepsItWasBegunWith) {
  const Recipe recipe = two_phases();
  PhasePlan plan(recipe, [](std::int64_t) { return 60; });  // more data than then
  EXPECT_EQ(plan.steps(1), 23);
  plan.keep_begun({40, 12}, recipe, 0);
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));
  Recipe other = recipe;
  other.phases[1].epochs = 3;
  PhasePlan longer(other, [](std::int64_t) { return 30; });
  longer.keep_begun({40, 12}, recipe, 0);
  EXPECT_EQ(longer.steps(1), 23) << "the recipe asks for more epochs now";
  PhasePlan more_phases(recipe, [](std::int64_t) { return 30; });
  more_phases.keep_begun({40}, recipe, 0);
  // What is over cannot be changed any more.
  Recipe changed = recipe;
  changed.phases[0].steps = 4000;
  PhasePlan second(changed, [](std::int64_t) { return 30; });
  second.keep_begun({40, 12}, recipe, 1);
  EXPECT_EQ(second.steps(0), 40);
  EXPECT_EQ(more_phases.steps(1), 12);
}

// Two phases whose micro-batches have as much room.
Recipe timed(double hours) {
  Recipe recipe = two_phases();
  recipe.phases[1].epochs.reset();
  recipe.phases[1].steps = 10;
  recipe.phases[1].micro_batches_per_step = 2;
  for (PhaseSection& phase : recipe.phases) phase.tokens_per_micro_batch = 1024;
  recipe.run.max_hours = hours;
  return recipe;
}

TEST(PhasePlan, WithHoursPhasesEndWhenTheirTimeDoes) {
  // 40 steps of one micro-batch and 10 of two: two thirds of six minutes, and one third.
  PhasePlan plan(timed(0.1), {});
  EXPECT_TRUE(plan.timed());
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 10)) << "before anything is known";
  plan.replan({.phase = 0, .phase_step = 0, .seconds = 0, .phase_seconds = 0});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 10));
  // 2 s a step: 120 in 240 s, and of those with two micro-batches 30 in 120 s.
  plan.replan({.phase = 0, .phase_step = 5, .seconds = 10, .phase_seconds = 10});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(120, 30));
  // It turns out to be slower, and the pace of now is that of all steps until now.
  plan.replan({.phase = 0, .phase_step = 50, .seconds = 200, .phase_seconds = 200});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(60, 15));
  // The time is over, a little late.
  plan.replan({.phase = 0, .phase_step = 59, .seconds = 239, .phase_seconds = 239});
  EXPECT_EQ(plan.steps(0), 59) << "half a step is no step";
  // The second phase has what is left, at its own pace.
  plan.replan({.phase = 1, .phase_step = 1, .seconds = 250, .phase_seconds = 11});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(59, 11));
  plan.replan({.phase = 1, .phase_step = 4, .seconds = 500, .phase_seconds = 261});
  EXPECT_EQ(plan.steps(1), 4) << "long past the end, for which a single step was to blame";
  EXPECT_EQ(plan.total(), 63);
}

TEST(PhasePlan, MoreHoursGoOnWhereARunHadEnded) {
  PhasePlan plan(timed(0.2), {});
  plan.keep_begun({59, 4}, timed(0.1), 0);
  plan.replan({.phase = 1, .phase_step = 4, .seconds = 360, .phase_seconds = 120});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(59, 16)) << "of 720 s 360 are left, at 30 s a step";
}

TEST(PhasePlan, EpochsAreCountedAnewWhenHoursAreTakenAway) {
  Recipe recipe = two_phases();
  Recipe before = recipe;
  before.run.max_hours = 1;
  PhasePlan plan(recipe, [](std::int64_t) { return 30; });
  plan.keep_begun({400, 417}, before, 0);
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));
}

TEST(PhasePlan, WarmUpIsNoLargerAShareThanItWas) {
  PhasePlan plan(timed(0.1), {});
  EXPECT_EQ(plan.warmup(0, with_warmup(10)), 10);
  plan.replan({.phase = 0, .phase_step = 1, .seconds = 12, .phase_seconds = 12});  // 20 steps of 40
  EXPECT_EQ(plan.steps(0), 20);
  EXPECT_EQ(plan.warmup(0, with_warmup(10)), 5);
  plan.replan({.phase = 0, .phase_step = 1, .seconds = 1, .phase_seconds = 1});
  EXPECT_EQ(plan.warmup(0, with_warmup(10)), 10) << "nor more steps than were asked for";
  EXPECT_EQ(PhasePlan(two_phases(), [](std::int64_t) { return 30; }).warmup(0, with_warmup(10)), 10);
}

// A share fits every phase, however short, and follows the clock.
TEST(PhasePlan, WarmUpMayBeAShareOfTheSteps) {
  Recipe recipe = two_phases();
  recipe.phases[1].warmup_share = 0.1;
  const PhasePlan plan(recipe, [](std::int64_t) { return 30; });  // 12 steps
  EXPECT_EQ(plan.warmup(1, recipe.phases[1]), 1);
  EXPECT_EQ(schedule_of(recipe.phases[1], 200).warmup_steps, 20);
  EXPECT_EQ(PhasePlan(recipe, [](std::int64_t) { return 1; }).warmup(1, recipe.phases[1]), 0);
  PhaseSection half;
  half.warmup_share = 0.5;
  PhasePlan by_time(timed(0.1), {});
  EXPECT_EQ(by_time.warmup(0, half), 20);
  by_time.replan({.phase = 0, .phase_step = 1, .seconds = 12, .phase_seconds = 12});  // 20 steps of 40
  EXPECT_EQ(by_time.warmup(0, half), 10);
}

TEST(PhasePlan, WithoutHoursTheClockChangesNothing) {
  PhasePlan plan(two_phases(), [](std::int64_t) { return 30; });
  EXPECT_FALSE(plan.timed());
  plan.replan({.phase = 0, .phase_step = 5, .seconds = 1000, .phase_seconds = 1000});
  EXPECT_THAT(plan.steps(), testing::ElementsAre(40, 12));
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

// Embeddings follow what they are made of, unless they have a rate of their own.
TEST(StepRates, OfEmbeddings) {
  LearningRates highest{.cores = 1, .gates = 2, .other = 4};
  const ParameterInfo core{.role = ParameterRole::core, .embedding = true},
      table{.role = ParameterRole::dense, .embedding = true};
  const auto rate_of = [&](const ParameterInfo& info) {
    return StepRates(highest, 0.5).of(group_of(info, {}));
  };
  EXPECT_EQ(rate_of(core), 0.5);
  EXPECT_EQ(rate_of(table), 2);
  highest.embedding = 6;
  EXPECT_EQ(rate_of(core), 3);
  EXPECT_EQ(rate_of(table), 3);
}

}  // namespace
}  // namespace comera::test
