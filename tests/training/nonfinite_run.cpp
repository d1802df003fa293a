#include "tests/training/nonfinite_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/training/rank_run.h"

namespace comera::test {

namespace {

constexpr const char* planted_in = "encoder.1.norm1.weight";

// A power of two, so that what was there comes back to the bit.
constexpr double overflow = 0x1p127, back = 0x1p-127;

void multiply(StepEngine& engine, double factor) {
  const ParameterStore& store = engine.model().parameters();
  const Tensor tensor = store.value(*store.find(planted_in));
  std::vector<double> values = read_tensor(tensor, store.allocator());
  for (double& value : values) value *= factor;  // all, so that some activation overflows in any batch
  write_tensor(tensor, values, store.allocator());
}

// All that a step may change on the device.
struct Snapshot {
  std::vector<std::vector<double>> flat;  // parameters and moments
  RankState ranks;
};

std::vector<Tensor> flat_tensors(StepEngine& engine) {
  std::vector<Tensor> tensors = {engine.model().parameters().values()};
  for (const ParameterState& state : engine.states()) tensors.push_back(state.values);
  return tensors;
}

Snapshot snapshot(StepEngine& engine) {
  Snapshot now;
  for (const Tensor& tensor : flat_tensors(engine))
    now.flat.push_back(read_tensor(tensor, engine.allocator()));
  now.ranks = engine.ranks()->state();
  return now;
}

void restore(StepEngine& engine, const Snapshot& then) {
  const std::vector<Tensor> tensors = flat_tensors(engine);
  for (std::size_t i = 0; i < tensors.size(); ++i) write_tensor(tensors[i], then.flat[i], engine.allocator());
  engine.ranks()->set_state(then.ranks);
}

void expect_unchanged(const Snapshot& before, const Snapshot& after) {
  EXPECT_EQ(before.flat, after.flat);
  EXPECT_EQ(before.ranks.loss_average, after.ranks.loss_average);
  EXPECT_EQ(before.ranks.loss_weight, after.ranks.loss_weight);
  EXPECT_EQ(before.ranks.smoothed_loss, after.ranks.smoothed_loss);
  EXPECT_EQ(before.ranks.size_left, after.ranks.size_left);
  EXPECT_EQ(before.ranks.live, after.ranks.live);
  EXPECT_EQ(after.ranks.pruned, 0);
}

std::vector<std::string> adapting_in_few_steps(const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"phase.0.steps=4",
                                       "phase.0.warmup_steps=0",
                                       "phase.1.steps=8",
                                       "phase.0.objective=regularize",
                                       "phase.1.objective=compress",
                                       "phase.1.learning_rate={cores=1e-3, gates=0.1, other=1e-3}",
                                       "phase.1.schedule=constant",
                                       "phase.1.adaptation.threshold=0.5",
                                       "phase.1.adaptation.target_ratio=0.6",
                                       "phase.1.adaptation.urgency=1e4",
                                       "phase.1.adaptation.compact_interval=3",
                                       "run.log_interval=1",
                                       "run.threads=1"};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// TrainingRun::run() with something to do after each step, and before the first (0).
TrainingOutcome run_with(const Recipe& recipe, TrainingOptions options,
                         const std::function<void(StepEngine&, std::int64_t)>& after_step) {
  static std::FILE* const null = std::fopen("/dev/null", "w");
  TrainingRun* current = nullptr;
  options.after_step = [&](std::int64_t step) { after_step(current->engine(), step); };
  if (options.output == stderr) options.output = null;
  TrainingRun run(recipe, options);
  current = &run;
  after_step(run.engine(), 0);
  return run.run();
}

void expect_equal_tensors(const std::filesystem::path& a, const std::filesystem::path& b) {
  const CheckpointReader first(a), second(b);
  EXPECT_EQ(first.tensors(), second.tensors());
  for (const char* group : {"/data", "/ranks"}) EXPECT_EQ(first.attributes(group), second.attributes(group));
}

// Lines without what depends on the clock.
std::vector<nlohmann::json> timeless(std::vector<nlohmann::json> lines) {
  for (nlohmann::json& line : lines)
    for (const char* key : {"tokens_per_second", "ms_per_step"}) line.erase(key);
  return lines;
}

}  // namespace

TrainingOutcome NonfiniteRun::train(const std::string& run, const PlantedOverflow& planted,
                                    const std::vector<std::string>& overrides,
                                    TrainingOptions options) const {
  options.processor = processor_;
  return run_with(recipe(run, adapting_in_few_steps(overrides)), options,
                  [&](StepEngine& engine, std::int64_t step) {
                    if (step == planted.from) multiply(engine, overflow);
                    if (step == planted.to) multiply(engine, back);
                  });
}

TrainingOutcome NonfiniteRun::train_with_undone_step(const std::string& run, std::int64_t undone,
                                                     const std::vector<std::string>& overrides) const {
  Snapshot before;
  return run_with(recipe(run, adapting_in_few_steps(overrides)), {.processor = processor_},
                  [&](StepEngine& engine, std::int64_t step) {
                    if (step == undone - 1) before = snapshot(engine);
                    if (step == undone) restore(engine, before);
                  });
}

std::vector<nlohmann::json> NonfiniteRun::metrics(const std::string& run) const {
  std::ifstream file(folder() / run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string NonfiniteRun::checkpoint(const std::string& run, std::int64_t step) const {
  return (folder() / run / "checkpoints" / fmt::format("step-{:08}.h5", step)).string();
}

void NonfiniteRun::expect_a_skipped_step_to_change_nothing(const std::vector<std::string>& overrides) const {
  std::vector<std::string> no_averages = {"optim.beta1=0.0", "optim.beta2=0.0"};
  no_averages.insert(no_averages.end(), overrides.begin(), overrides.end());
  Snapshot before;
  const TrainingOutcome outcome =
      run_with(recipe("skips", adapting_in_few_steps(no_averages)), {.processor = processor_},
               [&](StepEngine& engine, std::int64_t step) {
                 if (step == 5) {
                   multiply(engine, overflow);
                   before = snapshot(engine);
                 } else if (step == 6) {
                   expect_unchanged(before, snapshot(engine));
                   multiply(engine, back);
                 }
               });
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.step, 12);
  EXPECT_EQ(outcome.skipped, 1);
  const TrainingOutcome undone = train_with_undone_step("undone", 6, no_averages);
  EXPECT_EQ(undone.skipped, 0);
  expect_equal_tensors(outcome.checkpoint, undone.checkpoint);
  int skipped = 0;
  for (const nlohmann::json& line : metrics("skips")) {
    if (line.contains("ranks")) {
      EXPECT_TRUE(line["ranks"]["smoothed_loss"].is_number()) << line;
    }
    if (line.contains("targets")) {
      EXPECT_EQ(line["targets"] == 0, line["step"] == 6) << line;
      EXPECT_EQ(line.contains("loss"), line["step"] != 6) << line;
      EXPECT_EQ(line.contains("gradient_norm"), line["step"] != 6) << line;
      EXPECT_EQ(line["skipped_steps"], line["step"] < 6 ? 0 : 1);
    }
    if (!line.contains("skipped")) continue;
    ++skipped;
    EXPECT_EQ(line["step"], 6);
    EXPECT_EQ(line["skipped"]["total"], 1);
    EXPECT_EQ(line["skipped"]["in_a_row"], 1);
    EXPECT_THAT(line["skipped"]["first"].get<std::string>(),
                testing::AllOf(testing::StartsWith("the loss (the largest parameter is "),
                               testing::EndsWith(fmt::format("in {})", planted_in))));
  }
  EXPECT_EQ(skipped, 1);
}

// Steps 2 to 11 are one row, over the end of a phase.
void NonfiniteRun::expect_a_full_row_to_stop_and_to_go_on() const {
  const auto refusal = [&](const PlantedOverflow& planted, const TrainingOptions& options) -> std::string {
    try {
      train("stops", planted, {}, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto says_all =
      testing::AllOf(testing::HasSubstr("steps 2 to 11 were not finite, first in the loss (the largest "
                                        "parameter is 1.7"),
                     testing::HasSubstr(std::string("e+38, in ") + planted_in),
                     testing::HasSubstr("step-00000010.h5"), testing::HasSubstr("--resume auto"));
  EXPECT_THAT(refusal({.from = 1}, {}), says_all);
  {
    const CheckpointReader saved(checkpoint("stops", 10));
    saved.verify();
    EXPECT_EQ(saved.integer("/trainer", "skipped_steps"), 9);
    EXPECT_EQ(saved.integer("/trainer", "skipped_in_a_row"), 9);
  }
  // As long as the cause is there, the same step fills the same row.
  EXPECT_THAT(refusal({}, {.mode = RunMode::resume}), says_all);
  // Without it, the run goes on as one that was never stopped.
  const TrainingOutcome mended = train("stops", {.to = 0}, {}, {.mode = RunMode::resume});
  const TrainingOutcome whole = train("whole", {.from = 1, .to = 10}, {"optim.max_consecutive_skips=20"});
  EXPECT_EQ(whole.skipped, 9);
  EXPECT_EQ(mended.skipped, 9);
  expect_equal_checkpoints(mended.checkpoint, whole.checkpoint);
  EXPECT_EQ(timeless(metrics("stops")), timeless(metrics("whole")));
}

// Interrupted between two skipped steps, and behind the last of them.
void NonfiniteRun::expect_rows_to_be_resumed() const {
  const PlantedOverflow planted{.from = 4, .to = 8};
  const TrainingOutcome whole = train("whole", planted);
  EXPECT_EQ(whole.skipped, 4);
  for (const int stop : {6, 9}) {
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, planted, {}, {.stop_after = stop});
    const CheckpointReader saved(checkpoint(run, stop));
    EXPECT_EQ(saved.integer("/trainer", "skipped_in_a_row"), stop == 6 ? 2 : 0);
    EXPECT_EQ(saved.integer("/trainer", "skipped_steps"), stop == 6 ? 2 : 4);
    const TrainingOutcome resumed = train(run, planted, {}, {.mode = RunMode::resume});
    expect_equal_checkpoints(resumed.checkpoint, whole.checkpoint);
    EXPECT_EQ(timeless(metrics(run)), timeless(metrics("whole")));
  }
}

}  // namespace comera::test
