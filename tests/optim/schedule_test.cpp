#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace comera::test {
namespace {

// The factors by their definitions, of 20 steps with 4 of warm-up that fall to a tenth.
double expected(ScheduleKind kind, double step) {
  if (step < 4) return (step + 1) / 4;
  const double done = (step - 4) / 16;
  switch (kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
      return 1 - 0.9 * done;
    case ScheduleKind::cosine:
      return 0.1 + 0.9 * (1 + std::cos(std::numbers::pi * done)) / 2;
    case ScheduleKind::polynomial:
      return 0.1 + 0.9 * (1 - done) * (1 - done);
    case ScheduleKind::warmup_stable_decay:  // over the last 5
      return step < 15 ? 1 : 1 - 0.9 * (step - 15) / 5;
  }
  return NAN;
}

TEST(Schedule, FactorsAreThoseOfTheirDefinitions) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine,
                                  ScheduleKind::polynomial, ScheduleKind::warmup_stable_decay}) {
    const Schedule schedule{
        .kind = kind, .steps = 20, .warmup_steps = 4, .power = 2, .decay_share = 0.25, .final_ratio = 0.1};
    for (int step = 0; step < 20; ++step)
      EXPECT_NEAR(schedule.factor(step), expected(kind, step), 1e-12)
          << "schedule " << static_cast<int>(kind) << ", step " << step;
  }
}

// A longer run is the same until the shorter one decays: it continues from any of its checkpoints before.
TEST(Schedule, AStableStageDoesNotDependOnTheSteps) {
  Schedule shorter{.kind = ScheduleKind::warmup_stable_decay, .steps = 100, .warmup_steps = 10};
  shorter.decay_share = 0.2;
  Schedule longer = shorter;
  longer.steps = 1000;
  for (int step = 0; step < 80; ++step) EXPECT_EQ(shorter.factor(step), longer.factor(step)) << step;
  EXPECT_LT(shorter.factor(81), 1);
  EXPECT_EQ(longer.factor(799), 1);
}

TEST(Schedule, ADecayThatFillsThePhaseIsLinear) {
  const Schedule linear{.kind = ScheduleKind::linear, .steps = 30, .warmup_steps = 6, .final_ratio = 0.2};
  Schedule decay = linear;
  decay.kind = ScheduleKind::warmup_stable_decay;
  decay.decay_share = 0.8;
  for (int step = 0; step < 30; ++step) EXPECT_NEAR(decay.factor(step), linear.factor(step), 1e-12) << step;
}

}  // namespace
}  // namespace comera::test
