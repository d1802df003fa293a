// Phases in which linear layers become dense.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "checkpoints/checkpoint_file.h"
#include "recipes/phase_recipe.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DensePhase : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, std::vector<std::string> overrides = {},
                        TrainingOptions options = {}) const {
    overrides.emplace_back("phase.1.dense=true");
    static std::FILE* const null = std::fopen("/dev/null", "w");
    options.output = null;
    return TrainingRun(recipe(run, overrides), options).run();
  }
  fs::path checkpoint(const std::string& run, int step) const {
    return folder() / run / "checkpoints" / fmt::format("step-{:08}.h5", step);
  }
  std::map<int, double> held_out_losses(const std::string& run) const {
    std::map<int, double> losses;
    std::ifstream file(folder() / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (const auto entry = nlohmann::json::parse(line); entry.contains("validation_loss"))
        losses[entry["step"]] = entry["validation_loss"];
    return losses;
  }
};

const std::vector<std::string> every_step = {"run.evaluation_interval=1", "run.checkpoint_interval=1",
                                             "run.keep_checkpoints=20"};

// With rates of 0 the loss stays what it was, to rounding; also where layers have diagonals or were removed.
TEST_F(DensePhase, BeginsWithTheSameFunction) {
  const std::map<std::string, std::vector<std::string>> runs = {
      {"trains", {}},
      {"diagonals", {"tensorized.attention.diagonal=true", "tensorized.ffn_up.diagonal=true"}},
      {"removed",
       {"tensorized.ranks.encoder.0.attention.key=[0, 0, 0]", "tensorized.ranks.encoder.0.ffn.up=[0, 0, 0]",
        "tensorized.ranks.encoder.1.attention.output=[0, 0, 0]"}}};
  for (const auto& [run, layers] : runs) {
    std::vector<std::string> overrides = every_step;
    overrides.insert(overrides.end(), {"phase.1.learning_rate=0", "phase.1.length=16"});
    overrides.insert(overrides.end(), layers.begin(), layers.end());
    const TrainingOutcome outcome = train(run, overrides);
    EXPECT_TRUE(outcome.finished);
    const std::map<int, double> losses = held_out_losses(run);
    EXPECT_GT(std::abs(losses.at(1) - losses.at(7)), 1e-3) << run;
    for (int step = 8; step <= 12; ++step) EXPECT_NEAR(losses.at(step), losses.at(7), 1e-5) << run;
  }
}

// A removed layer is a matrix of zeros at first, and is trained like the others.
TEST_F(DensePhase, TrainsRemovedLayersAgain) {
  std::vector<std::string> overrides = every_step;
  overrides.emplace_back("tensorized.ranks.encoder.1.attention.output=[0, 0, 0]");
  train("run", overrides);
  const std::string weight = "/model/encoder.1.attention.output.weight";
  EXPECT_FALSE(CheckpointReader(checkpoint("run", 7)).has_tensor(weight));
  const std::vector<float> trained = CheckpointReader(checkpoint("run", 12)).read_values<float>(weight);
  EXPECT_EQ(trained.size(), 24 * 24);
  EXPECT_THAT(trained, testing::Contains(testing::Ne(0.F)));
}

TEST_F(DensePhase, HasMatricesAndTheSameTable) {
  const TrainingOutcome outcome = train("run", every_step);
  const CheckpointReader before(checkpoint("run", 7)), after(outcome.checkpoint);
  EXPECT_TRUE(before.has_tensor("/model/encoder.1.attention.query.core.0"));
  EXPECT_FALSE(after.has_tensor("/model/encoder.1.attention.query.core.0"));
  EXPECT_EQ(after.tensor("/model/encoder.1.attention.query.weight").shape,
            (std::vector<std::int64_t>{24, 24}));
  EXPECT_EQ(after.tensor("/model/encoder.0.ffn.up.weight").shape, (std::vector<std::int64_t>{24, 48}));
  EXPECT_EQ(after.tensor("/model/embedding.tokens.core.1").shape,
            before.tensor("/model/embedding.tokens.core.1").shape);
  // What is not a tensor train keeps its moments: a second moment falls by beta2 at most.
  const CheckpointReader first(checkpoint("run", 8));
  for (const char* moment : {"/optimizer/encoder.0.norm1.weight/v", "/optimizer/embedding.tokens.core.0/v"}) {
    const std::vector<float> was = before.read_values<float>(moment), is = first.read_values<float>(moment);
    ASSERT_EQ(was.size(), is.size());
    for (std::size_t i = 0; i < was.size(); ++i) EXPECT_GE(is[i], 0.97F * was[i]) << moment;
  }
}

// Stopped before the dense phase, at its first step and after it; the run's recipe keeps its tensor trains.
TEST_F(DensePhase, IsResumedToTheBit) {
  for (const std::string optimizer : {"adamw", "muon"}) {
    std::vector<std::string> overrides = {"optim.name=" + optimizer};
    if (optimizer == "muon")
      for (const char* phase : {"0", "1"})
        overrides.push_back(fmt::format(
            "phase.{}.learning_rate={{cores=3e-3, embedding=3e-3, gates=1e-3, other=2e-3}}", phase));
    const TrainingOutcome whole = train("whole-" + optimizer, overrides);
    for (const int stop : {6, 7, 8, 10}) {
      const std::string run = fmt::format("stopped-{}-{}", optimizer, stop);
      EXPECT_FALSE(train(run, overrides, {.stop_after = stop}).finished);
      const TrainingOutcome resumed = train(run, overrides, {.mode = RunMode::resume});
      EXPECT_TRUE(resumed.finished);
      expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
      EXPECT_TRUE(load_recipe(folder() / run / "recipe.toml", {}).tensorized.attention);
    }
  }
}

// The average's matrices are those of its own cores: with rates of 0 it moves on by one weight's share of the
// way to the last weights, instead of jumping there.
TEST_F(DensePhase, AnAverageBecomesDenseToo) {
  std::vector<std::string> overrides = every_step;
  overrides.insert(overrides.end(), {"phase.1.learning_rate=0", "phase.1.length=16"});
  train("without", overrides);
  overrides.emplace_back("optim.average_decay=0.99");
  const TrainingOutcome whole = train("whole", overrides);
  const double share = 0.01 / (1 - std::pow(0.99, 8));
  const std::map<int, double> averages = held_out_losses("whole");
  const double last = held_out_losses("without").at(7);
  EXPECT_GT(std::abs(last - averages.at(7)), 0.01);
  EXPECT_NEAR(averages.at(8), averages.at(7), 1.5 * share * std::abs(last - averages.at(7)));
  const std::string core = "embedding.tokens.core.0";
  const CheckpointReader before(checkpoint("whole", 7)), after(checkpoint("whole", 8));
  const std::vector<float> was = before.read_values<float>("/model/" + core),
                           is = after.read_values<float>("/model/" + core),
                           weights = before.read_values<float>("/optimizer/" + core + "/weights");
  EXPECT_EQ(after.read_values<float>("/optimizer/" + core + "/weights"), weights);
  for (std::size_t i = 0; i < is.size(); ++i)
    EXPECT_NEAR(is[i], was[i] + share * (weights[i] - was[i]), 1e-6);
  for (const int stop : {7, 9}) {
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, overrides, {.stop_after = stop});
    const TrainingOutcome resumed = train(run, overrides, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
  }
}

TEST_F(DensePhase, IsReportedAndPlanned) {
  train("run");
  const ProgramResult inspected = run_program({"inspect", (folder() / "run").string(), "--ranks"});
  EXPECT_EQ(inspected.code, 0) << inspected.output;
  EXPECT_THAT(inspected.output, HasSubstr("embedding.tokens"));
  // The dense phase's checkpoints are the larger ones.
  const auto planned_megabytes = [&](const std::string& dense) {
    const ProgramResult planned =
        run_program({"pretrain", write_recipe().string(), "--dry-run", "--set", "phase.1.dense=" + dense});
    EXPECT_EQ(planned.code, 0) << planned.output;
    std::smatch match;
    EXPECT_TRUE(std::regex_search(planned.output, match, std::regex("checkpoints +about ([0-9.]+) MB")))
        << planned.output;
    return std::stod(match[1]);
  };
  EXPECT_GT(planned_megabytes("true"), planned_megabytes("false"));
  const ProgramResult evaluated =
      run_program({"eval", (folder() / "run").string(), "--data", corpus().string()});
  EXPECT_EQ(evaluated.code, 0) << evaluated.output;
}

// Like the dense baseline but for the table, if it is the run's first.
TEST_F(DensePhase, MayBeTheFirst) {
  const TrainingOutcome outcome = train("run", {"phase.0.dense=true"});
  EXPECT_TRUE(outcome.finished);
  EXPECT_TRUE(CheckpointReader(outcome.checkpoint).has_tensor("/model/encoder.0.ffn.up.weight"));
}

TEST_F(DensePhase, AdaptsNoRanks) {
  EXPECT_THAT(error_of([&] {
                recipe("run", {"phase.1.dense=true", "phase.1.objective=compress",
                               "phase.1.adaptation.target_ratio=0.5"});
              }),
              HasSubstr("phase.1.dense leaves linear layers without ranks"));
}

TEST(RecipeInPhase, IsDenseFromTheFirstDensePhaseOn) {
  Recipe recipe;
  recipe.tensorized.attention = TTShape{{2, 2}, {2, 2}, {2, 2, 2}};
  recipe.tensorized.embedding = TTMShape{{4, 4}, {2, 2}, {3}};
  recipe.tensorized.ranks = {{"embedding.tokens", {2}}, {"encoder.0.attention.query", {1, 1, 1}}};
  recipe.phases.resize(4);
  EXPECT_EQ(recipe_in_phase(recipe, 3), recipe);
  recipe.phases[1].dense = true;
  EXPECT_EQ(recipe_in_phase(recipe, 0), recipe);
  for (const int phase : {1, 2, 3}) {
    const Recipe dense = recipe_in_phase(recipe, phase);
    EXPECT_FALSE(dense.tensorized.attention);
    EXPECT_EQ(dense.tensorized.embedding, recipe.tensorized.embedding);
    EXPECT_EQ(dense.tensorized.ranks, (LayerRanks{{"embedding.tokens", {2}}}));
    EXPECT_EQ(becomes_dense(recipe, phase), phase == 1);
    EXPECT_FALSE(becomes_dense(dense, phase));
  }
  EXPECT_FALSE(becomes_dense(recipe, 0));
}

}  // namespace
}  // namespace comera::test
