// Options of a pretraining whose values change from step to step.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoints/checkpoint_file.h"
#include "tests/training/training_fixture.h"
#include "training/run/phase.h"

namespace comera::test {
namespace {

class PretrainingOptions : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) const {
    options.output = silent();
    return TrainingRun(recipe(run, overrides), options).run();
  }
  static std::FILE* silent() {
    static std::FILE* const null = std::fopen("/dev/null", "w");
    return null;
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

const std::vector<std::string> averaged = {"optim.average_decay=0.7"};

// The saved model is the average by its definition, and training goes on from the weights beside it, which
// are those of a run without.
TEST_F(PretrainingOptions, AnAverageIsOfTheWeightsAfterEveryStep) {
  constexpr double decay = 0.7;
  std::vector<std::vector<double>> weights;
  TrainingRun* current = nullptr;
  const auto values = [&] {
    const ParameterStore& store = current->engine().model().parameters();
    return read_tensor(store.values(), store.allocator());
  };
  TrainingRun run(recipe("averaged", averaged),
                  {.after_step = [&](std::int64_t) { weights.push_back(values()); }, .output = silent()});
  current = &run;
  const CheckpointReader saved(run.run().checkpoint);
  const CheckpointReader without(train("without", {}, {}).checkpoint);
  ASSERT_EQ(weights.size(), 12);
  const ParameterStore& store = run.engine().model().parameters();
  double distance = 0;
  for (const ParameterId id : store.layout()) {
    const std::string name = store.info(id).name;
    EXPECT_EQ(saved.read_values<float>("/optimizer/" + name + "/weights"),
              without.read_values<float>("/model/" + name));
    const std::vector<float> average = saved.read_values<float>("/model/" + name);
    for (std::size_t i = 0; i < average.size(); ++i) {
      double expected = 0, all = 0;
      for (std::size_t step = 0; step < weights.size(); ++step) {
        const double weight = std::pow(decay, static_cast<double>(weights.size() - 1 - step));
        expected += weight * weights[step][static_cast<std::size_t>(store.offset(id)) + i];
        all += weight;
      }
      EXPECT_NEAR(average[i], expected / all, 1e-6) << name;
      distance = std::max(
          distance, std::abs(average[i] - weights.back()[static_cast<std::size_t>(store.offset(id)) + i]));
    }
  }
  EXPECT_GT(distance, 1e-4);
}

TEST_F(PretrainingOptions, AnAverageContinuesToTheBit) {
  const TrainingOutcome whole = train("whole", {}, averaged);
  for (const int stop : {1, 7, 10}) {
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, {.stop_after = stop}, averaged);
    const TrainingOutcome rest = train(run, {.mode = RunMode::resume}, averaged);
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
    EXPECT_EQ(whole.evaluation->loss, rest.evaluation->loss);
  }
}

TEST_F(PretrainingOptions, AnAverageIsWhatIsEvaluatedAndUsed) {
  const TrainingOutcome outcome = train("run", {}, averaged);
  const TrainingOutcome without = train("without", {}, {});
  EXPECT_GT(std::abs(outcome.evaluation->loss - without.evaluation->loss), 1e-5);
  const ProgramResult evaluated = run_program({"eval", outcome.best.string(), "--json"});
  EXPECT_NEAR(nlohmann::json::parse(evaluated.output)["validation_loss"], -outcome.best_score, 1e-6);
  TrainingRun next(
      recipe("next", {"run.initial_checkpoint=" + outcome.checkpoint.string(), "optim.average_decay=0.9"}),
      {.output = silent()});
  const ParameterStore& store = next.engine().model().parameters();
  for (const ParameterId id : store.layout()) {
    const std::vector<double> begun = read_tensor(store.value(id), store.allocator());
    const std::vector<float> average =
        CheckpointReader(outcome.checkpoint).read_values<float>("/model/" + store.info(id).name);
    EXPECT_EQ(begun, std::vector<double>(average.begin(), average.end())) << store.info(id).name;
  }
}

// A run that stops before its first update has a model, too: its initial one.
TEST_F(PretrainingOptions, AnAverageBeginsWithTheWeights) {
  TrainingRun run(recipe("run", averaged), {.output = silent()});
  const ParameterStore& store = run.engine().model().parameters();
  const std::vector<double> initial = read_tensor(store.values(), store.allocator());
  run.engine().exchange_average();
  EXPECT_EQ(read_tensor(store.values(), store.allocator()), initial);
}

TEST_F(PretrainingOptions, AnAverageBelongsToARunFromItsBeginning) {
  train("with", {.stop_after = 2}, averaged);
  train("without", {.stop_after = 2}, {});
  EXPECT_THAT([&] { train("with", {.mode = RunMode::resume}, {}); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "was trained with optim.average_decay; resume with it, or start a new run")));
  EXPECT_THAT([&] { train("without", {.mode = RunMode::resume}, averaged); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr(
                  "was trained without optim.average_decay; resume without it, or start a new run")));
}

const std::vector<std::string> falling = {"phase.0.mask_probability=0.4",
                                          "phase.0.final_mask_probability=0.1",
                                          "phase.1.final_mask_probability=0.05"};

TEST_F(PretrainingOptions, AFallingShareOfMasksContinuesToTheBit) {
  for (const std::string length : {"phase.0.steps=7", "phase.0.epochs=2"}) {
    std::vector<std::string> overrides = falling;
    overrides.push_back(length);
    const TrainingOutcome whole = train("whole " + length, {}, overrides);
    for (const int stop : {2, 7, 9}) {
      const std::string run = fmt::format("{} {}", stop, length);
      train(run, {.stop_after = stop}, overrides);
      const TrainingOutcome rest = train(run, {.mode = RunMode::resume}, overrides);
      expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
    }
  }
}

// Where nothing is learned, the loss of held-out data is what it is without; the training's own is not.
TEST_F(PretrainingOptions, AFallingShareOfMasksIsOfTheTrainingAlone) {
  const std::vector<std::string> idle = {"phase.0.learning_rate=0", "phase.1.learning_rate=0",
                                         "run.log_interval=1"};
  std::vector<std::string> overrides = idle;
  overrides.insert(overrides.end(), falling.begin(), falling.end());
  const TrainingOutcome outcome = train("falling", {}, overrides), constant = train("constant", {}, idle);
  EXPECT_EQ(outcome.evaluation->loss, constant.evaluation->loss);
  EXPECT_EQ(outcome.evaluation->targets, constant.evaluation->targets);
}

TEST_F(PretrainingOptions, AFallingShareOfMasksNeedsMasksAndSteps) {
  EXPECT_THAT(
      [&] {
        recipe("run", {falling[1], "run.max_hours=1"});
      },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr(
          "phase.0.final_mask_probability is reached in the phase's last step, which run.max_hours leaves "
          "open; remove one of them")));
  EXPECT_EQ(given_mask_probability(recipe("run", {falling[1]}).phases), "phase.0.final_mask_probability");
  EXPECT_EQ(given_mask_probability(recipe("run", {}).phases), "");
}

}  // namespace
}  // namespace comera::test
