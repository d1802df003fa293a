// Runs whose length is given in hours, and the checkpoints that are kept for good.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

class TimedRun : public TrainingFixture {
 protected:
  static constexpr double seconds = 2;

  // Steps of at least 20 ms.
  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) const {
    static std::FILE* const silent = std::fopen("/dev/null", "w");
    options.output = silent;
    options.after_step = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    return TrainingRun(recipe(run, overrides), options).run();
  }
  static std::string hours(double seconds) { return fmt::format("run.max_hours={}", seconds / 3600); }
  static double trained(const TrainingOutcome& outcome) {
    return CheckpointReader(outcome.checkpoint).number("/trainer", "seconds");
  }
  std::vector<nlohmann::json> steps_of(const std::string& run) const {
    std::vector<nlohmann::json> lines;
    std::ifstream stream(folder() / run / "metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      if (const auto values = nlohmann::json::parse(line); values.contains("learning_rate"))
        lines.push_back(values);
    return lines;
  }
};

TEST_F(TimedRun, EndsWithItsTimeInItsLastPhase) {
  const TrainingOutcome outcome = train("run", {}, {hours(seconds), "run.log_interval=1"});
  EXPECT_TRUE(outcome.finished);
  // A busy machine may take long for a single step; nothing takes less.
  EXPECT_GE(trained(outcome), 0.9 * seconds);
  const std::vector<nlohmann::json> lines = steps_of("run");
  EXPECT_EQ(lines.size(), outcome.step) << "whatever the recipe's steps are";
  std::map<std::string, int> in_phase;
  for (const auto& line : lines) ++in_phase[line["phase"]];
  ASSERT_EQ(in_phase.size(), 2);
  // The rates have fallen to where the schedule ends, as nearly as one step allows.
  const auto rate = [](const nlohmann::json& line) {
    const auto& rates = line["learning_rate"];
    return rates.is_number() ? rates.get<double>() : rates.begin()->get<double>();
  };
  double highest = 0;
  for (const auto& line : lines) highest = std::max(highest, rate(line));
  EXPECT_LT(rate(lines.back()), 0.35 * highest);
}

// Of 2 seconds in the first phase's share of them: the rate stays, and falls at the end. Nothing but steps
// takes time, so that there are many even on a busy machine.
TEST_F(TimedRun, AStableStageDecaysAtTheEndOfItsTime) {
  train("run", {},
        {hours(seconds), "run.log_interval=1", "run.checkpoint_interval=0", "run.evaluation_interval=0",
         "run.threads=1", "phase.0.schedule=warmup_stable_decay", "phase.0.decay_share=0.3"});
  int highest = 0, lower = 0;
  double last = 0;
  for (const auto& line : steps_of("run")) {
    if (line["phase"] != "short") continue;
    last = line["learning_rate"]["gates"];
    (last == 1e-3 ? highest : lower) += 1;
  }
  EXPECT_GT(highest, lower);
  EXPECT_LT(last, 0.5e-3);
}

TEST_F(TimedRun, GoesOnWithTheTimeThatIsLeft) {
  const std::vector<std::string> settings = {hours(seconds)};
  const TrainingOutcome stopped = train("run", {.stop_after = 12}, settings);
  EXPECT_FALSE(stopped.finished);
  const double before = trained(stopped);
  EXPECT_GT(before, 0.2);
  const TrainingOutcome resumed = train("run", {.mode = RunMode::resume}, settings);
  EXPECT_TRUE(resumed.finished);
  EXPECT_GE(trained(resumed), 0.9 * seconds);
  EXPECT_GT(resumed.step, 12);
  // And with more time, which the run is given when it has ended.
  const TrainingOutcome longer = train("run", {.mode = RunMode::resume}, {hours(3 * seconds)});
  EXPECT_TRUE(longer.finished);
  EXPECT_GE(trained(longer), 0.9 * 3 * seconds);
  EXPECT_GT(longer.step, resumed.step);
}

// Nobody knows how long a run without hours has trained, nor how many steps one with hours was asked for.
TEST_F(TimedRun, HoursBelongToARunFromItsBeginning) {
  train("without", {.stop_after = 2}, {});
  EXPECT_THAT([&] { train("without", {.mode = RunMode::resume}, {hours(seconds)}); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("was trained without run.max_hours")));
  train("with", {.stop_after = 2}, {hours(seconds)});
  const TrainingOutcome outcome = train("with", {.mode = RunMode::resume}, {});
  EXPECT_EQ(outcome.step, 12) << "the recipe's steps";
}

TEST_F(TimedRun, AMilestoneThatAKillHasLostIsKeptLater) {
  const std::vector<std::string> settings = {"run.milestone_interval=3", "run.keep_checkpoints=1"};
  train("run", {.stop_after = 3}, settings);
  const fs::path milestone = folder() / "run" / "milestones" / "step-00000003.h5";
  ASSERT_TRUE(fs::remove(milestone));
  train("run", {.mode = RunMode::resume}, settings);
  EXPECT_EQ(CheckpointReader(milestone).integer("/trainer", "step"), 3);
}

TEST_F(TimedRun, ACheckpointWithoutHoursSaysNothingOfTheClock) {
  const TrainingOutcome outcome = train("run", {.stop_after = 2}, {});
  EXPECT_FALSE(CheckpointReader(outcome.checkpoint).attributes("/trainer").contains("seconds"));
}

TEST_F(TimedRun, MilestonesStay) {
  const TrainingOutcome outcome =
      train("run", {}, {"run.milestone_interval=3", "run.keep_checkpoints=1", "run.checkpoint_interval=2"});
  EXPECT_TRUE(outcome.finished);
  std::vector<std::string> kept;
  for (const auto& entry : fs::directory_iterator(folder() / "run" / "milestones"))
    kept.push_back(entry.path().filename().string());
  EXPECT_THAT(kept, testing::UnorderedElementsAre("step-00000003.h5", "step-00000006.h5", "step-00000009.h5",
                                                  "step-00000012.h5"));
  EXPECT_EQ(
      CheckpointReader(folder() / "run" / "milestones" / "step-00000006.h5").integer("/trainer", "step"), 6);
}

// Of two phases of different lengths the losses do not compare: the best model is of the last one.
TEST_F(TimedRun, TheBestModelOfAPretrainingIsKept) {
  const TrainingOutcome outcome = train("run", {}, {"run.evaluation_interval=2"});
  ASSERT_FALSE(outcome.best.empty());
  EXPECT_GT(outcome.best_step, 7);
  EXPECT_TRUE(fs::exists(folder() / "run" / "best-phase-0.h5")) << "of the first phase";
  EXPECT_TRUE(fs::exists(folder() / "run" / "best.h5"));
  EXPECT_EQ(CheckpointReader(outcome.best).integer("/trainer", "step"), outcome.best_step);
  const ProgramResult evaluated = run_program({"eval", outcome.best.string(), "--json"});
  EXPECT_NEAR(nlohmann::json::parse(evaluated.output)["validation_loss"], -outcome.best_score, 1e-6);
}

}  // namespace
}  // namespace comera::test
