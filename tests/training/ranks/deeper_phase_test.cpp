// Phases that add encoder blocks.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoints/checkpoint_file.h"
#include "recipes/phase_recipe.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Two blocks first, then five: the third to fifth are copies of the first, the second and the first.
const std::vector<std::string> deeper = {"model.layers=5", "phase.0.layers=2"};
const std::vector<std::string> after_every_step = {"run.evaluation_interval=1", "run.checkpoint_interval=1",
                                                   "run.keep_checkpoints=20"};

class DeeperPhase : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, const std::vector<std::string>& more = {},
                        TrainingOptions options = {}) const {
    std::vector<std::string> overrides = deeper;
    overrides.insert(overrides.end(), more.begin(), more.end());
    static std::FILE* const null = std::fopen("/dev/null", "w");
    options.output = null;
    return TrainingRun(recipe(run, overrides), options).run();
  }
  fs::path checkpoint(const std::string& run, int step) const {
    return folder() / run / "checkpoints" / fmt::format("step-{:08}.h5", step);
  }
  std::string refusal(const std::vector<std::string>& overrides) const {
    return error_of([&] { recipe("refused", overrides); });
  }
};

// A whole step is made after the blocks are added: at a rate of 0 the weights are the copies themselves.
TEST_F(DeeperPhase, AddsCopiesOfItsBlocks) {
  std::vector<std::string> overrides = after_every_step;
  overrides.insert(overrides.end(), {"phase.1.learning_rate=0", "optim.weight_decay=0"});
  train("run", overrides);
  const CheckpointReader before(checkpoint("run", 7)), after(checkpoint("run", 8));
  EXPECT_FALSE(before.has_tensor("/model/encoder.2.norm1.weight"));
  int compared = 0;
  for (const CheckpointTensor& tensor : after.tensors()) {
    if (!tensor.path.starts_with("/model/")) continue;
    std::string source = tensor.path;
    if (const auto block = find_block(source.substr(7)))
      source = "/model/" + block->renamed(source.substr(7), block->number % 2);
    EXPECT_EQ(after.read_values<float>(tensor.path), before.read_values<float>(source)) << tensor.path;
    ++compared;
  }
  EXPECT_GT(compared, 5 * 20);
  const auto differs = [&](const char* part) {
    return before.read_values<float>(fmt::format("/model/encoder.0.{}", part)) !=
           before.read_values<float>(fmt::format("/model/encoder.1.{}", part));
  };
  EXPECT_TRUE(differs("attention.query.core.0"));
}

// An optimizer goes on where it was: a first moment falls by beta1 at most but for the new gradient's share.
TEST_F(DeeperPhase, CopiesTheStatesOfTheOptimizer) {
  std::vector<std::string> overrides = after_every_step;
  overrides.insert(overrides.end(), {"phase.1.learning_rate=0"});
  train("run", overrides);
  const CheckpointReader before(checkpoint("run", 7)), after(checkpoint("run", 8));
  for (const auto& [copy, source] :
       std::map<std::string, std::string>{{"encoder.3.ffn.up.core.1/v", "encoder.1.ffn.up.core.1/v"},
                                          {"encoder.4.norm2.weight/v", "encoder.0.norm2.weight/v"},
                                          {"head.norm.weight/v", "head.norm.weight/v"}}) {
    const std::vector<float> was = before.read_values<float>("/optimizer/" + source),
                             is = after.read_values<float>("/optimizer/" + copy);
    ASSERT_EQ(was.size(), is.size());
    EXPECT_THAT(was, testing::Contains(testing::Gt(0.F)));
    for (std::size_t i = 0; i < was.size(); ++i) EXPECT_GE(is[i], 0.97F * was[i]) << copy;
  }
}

// Stopped before blocks are added, at the step where they are, and after it; the run's recipe stays as it
// was.
TEST_F(DeeperPhase, IsResumedToTheBit) {
  const std::map<std::string, std::vector<std::string>> runs = {
      {"adamw", {}},
      {"muon",
       {"optim.name=muon", "phase.0.learning_rate={cores=3e-3, embedding=3e-3, gates=1e-3, other=2e-3}",
        "phase.1.learning_rate={cores=3e-3, embedding=3e-3, gates=1e-3, other=2e-3}"}},
      {"average", {"optim.average_decay=0.99"}},
      {"dense", {"phase.1.dense=true"}},
      {"adapted", {"phase.1.objective=compress", "phase.1.adaptation.target_ratio=0.8"}},
      {"pre", {"model.norm=pre", "tensorized.enabled=false"}},
      {"galore",
       {"tensorized.enabled=false", "optim.name=galore", "optim.galore={rank=5, update_proj_gap=3}"}},
      {"low-rank", {"tensorized.enabled=false", "low_rank.rank=5"}},
      {"replaced", {"model.head=replaced_tokens", "generator.width=0.5"}}};
  for (const auto& [name, overrides] : runs) {
    const TrainingOutcome whole = train("whole-" + name, overrides);
    EXPECT_TRUE(whole.finished) << name;
    for (const int stop : {6, 7, 8, 10}) {
      const std::string run = fmt::format("{}-{}", name, stop);
      EXPECT_FALSE(train(run, overrides, {.stop_after = stop}).finished);
      EXPECT_TRUE(train(run, overrides, {.mode = RunMode::resume}).finished);
      expect_equal_checkpoints(whole.checkpoint, checkpoint(run, 12));
      EXPECT_EQ(load_recipe(folder() / run / "recipe.toml", {}).model.layers, 5);
    }
  }
}

// Each of them is a model of its own for all other commands.
TEST_F(DeeperPhase, ItsCheckpointsAreUsedLikeOthers) {
  train("run", after_every_step);
  for (const auto& [step, blocks] : std::map<int, int>{{7, 2}, {12, 5}}) {
    const std::string file = checkpoint("run", step).string();
    const ProgramResult scored = run_program({"eval", file, "--data", corpus().string()});
    EXPECT_EQ(scored.code, 0) << scored.output;
    const ProgramResult shown = run_program({"inspect", file});
    EXPECT_THAT(shown.output, HasSubstr(fmt::format("encoder.{}.ffn.up", blocks - 1)));
    EXPECT_THAT(shown.output, testing::Not(HasSubstr(fmt::format("encoder.{}.ffn.up", blocks))));
  }
}

// Sizes count from where the blocks are added.
TEST_F(DeeperPhase, AdaptsTheRanksOfTheDeeperModel) {
  const TrainingOutcome outcome =
      train("run", {"phase.1.objective=compress", "phase.1.adaptation.target_ratio=0.8",
                    "phase.1.adaptation.compact_interval=1",
                    "phase.1.learning_rate={cores=1e-3, embedding=1e-3, gates=0.1, other=1e-3}"});
  EXPECT_TRUE(outcome.finished);
  const CheckpointReader reader(outcome.checkpoint);
  EXPECT_EQ(reader.attributes("/ranks/0/layers").size(), reader.attributes("/ranks/1/layers").size());
  EXPECT_TRUE(reader.attributes("/ranks/0/layers").contains("encoder.4.ffn.up"));
}

TEST_F(DeeperPhase, IsPlanned) {
  std::vector<std::string> arguments = {"pretrain", write_recipe().string(), "--dry-run"};
  for (const std::string& key : deeper) arguments.insert(arguments.end(), {"--set", key});
  const ProgramResult planned = run_program(arguments);
  EXPECT_EQ(planned.code, 0) << planned.output;
}

TEST_F(DeeperPhase, RefusesWhatCannotBe) {
  EXPECT_THAT(refusal({"model.layers=2", "phase.0.layers=3"}),
              HasSubstr("phase.1 has 2 layers, fewer than the 3 of the phase before"));
  EXPECT_THAT(refusal({"model.layers=2", "phase.0.layers=0"}), HasSubstr("phase.0.layers"));
  EXPECT_THAT(refusal({"phase.1.layers=2000"}), HasSubstr("phase.1.layers = 2000 is more than 1024"));
  EXPECT_THAT(refusal({"model.layers=4", "phase.0.layers=2", "phase.0.objective=regularize"}),
              HasSubstr("phase.1 adds layers, but phase.0.objective adapts ranks before it"));
  EXPECT_THAT(
      error_of([&] { train("ranks", {"tensorized.ranks.encoder.3.ffn.up=[2, 2, 2]"}); }),
      HasSubstr("tensorized.ranks.encoder.3.ffn.up is of a block that a later phase adds as a copy of "
                "block 1"));
}

TEST(RecipeInPhase, HasThePhasesBlocks) {
  Recipe recipe;
  recipe.model.layers = 6;
  recipe.phases.resize(3);
  EXPECT_EQ(recipe_in_phase(recipe, 1), recipe);
  recipe.phases[0].layers = 2, recipe.phases[1].layers = 4;
  recipe.tensorized.ranks = {{"embedding.tokens", {2}}, {"encoder.1.ffn.up", {3, 5, 7}}};
  const Recipe first = recipe_in_phase(recipe, 0), second = recipe_in_phase(first, 1),
               third = recipe_in_phase(second, 2);
  EXPECT_EQ(first.model.layers, 2);
  EXPECT_EQ(second.model.layers, 4);
  EXPECT_EQ(third.model.layers, 6);
  EXPECT_EQ(first.tensorized.ranks, recipe.tensorized.ranks);
  EXPECT_EQ(third.tensorized.ranks, (LayerRanks{{"embedding.tokens", {2}},
                                                {"encoder.1.ffn.up", {3, 5, 7}},
                                                {"encoder.3.ffn.up", {3, 5, 7}},
                                                {"encoder.5.ffn.up", {3, 5, 7}}}));
  EXPECT_EQ(recipe_in_phase(recipe, 2).model.layers, 6);
  for (const Recipe& any : {recipe, first, second, third})
    EXPECT_TRUE(!grows(any, 0) && adds_blocks(any, 1) && grows(any, 2));
}

TEST(FindBlock, ReadsItsNumber) {
  EXPECT_EQ(find_block("encoder.12.ffn.up")->number, 12);
  EXPECT_EQ(find_block("encoder.12.ffn.up")->renamed("encoder.12.ffn.up", 3), "encoder.3.ffn.up");
  EXPECT_EQ(find_block("generator.encoder.1.norm1.bias")->renamed("generator.encoder.1.norm1.bias", 10),
            "generator.encoder.10.norm1.bias");
  for (const char* outside : {"embedding.tokens", "encoder.norm", "encoder.", "encoder.3", "head.bias"})
    EXPECT_FALSE(find_block(outside)) << outside;
}

}  // namespace
}  // namespace comera::test
