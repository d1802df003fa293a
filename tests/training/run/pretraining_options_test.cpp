// Options of a pretraining whose values change from step to step.
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

class PretrainingOptions : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) const {
    static std::FILE* const silent = std::fopen("/dev/null", "w");
    options.output = silent;
    return TrainingRun(recipe(run, overrides), options).run();
  }
};

// A longer run differs from a shorter one only from the shorter one's decay on.
TEST_F(PretrainingOptions, AStableStageGoesOnWithMoreSteps) {
  const auto with_steps = [](int steps) {
    return std::vector<std::string>{"phase.0.schedule=warmup_stable_decay", "phase.0.decay_share=0.5",
                                    fmt::format("phase.0.steps={}", steps)};
  };
  const TrainingOutcome whole = train("whole", {}, with_steps(12));
  train("longer", {.stop_after = 4}, with_steps(8));
  const TrainingOutcome longer = train("longer", {.mode = RunMode::resume}, with_steps(12));
  expect_equal_checkpoints(whole.checkpoint, longer.checkpoint);
  train("too_late", {.stop_after = 7}, with_steps(8));
  const TrainingOutcome other = train("too_late", {.mode = RunMode::resume}, with_steps(12));
  EXPECT_NE(whole.evaluation->loss, other.evaluation->loss) << "its decay had begun";
}

}  // namespace
}  // namespace comera::test
