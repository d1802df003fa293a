#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "measurements/methods/methods_benchmark.h"
#include "measurements/methods/methods_learning.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class Methods : public TrainingFixture {
 protected:
  std::vector<Method> methods(const std::vector<std::string>& names = {}) const {
    return methods_of(recipe("unused", {"run.threads=1"}),
                      {.names = names, .galore = {.rank = 4}, .lte = {8, 16, 8, 10}});
  }
};

std::size_t bytes_of(const MethodCost& cost, MemoryKind kind) { return cost.bytes[static_cast<int>(kind)]; }

TEST_F(Methods, AreTheRecipeWithOtherLayersOrAnotherOptimizer) {
  const std::vector<Method> all = methods({"galore", "tensor_trains", "dense"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].recipe.optim.kind, OptimizerKind::galore);
  EXPECT_EQ(all[0].recipe.optim.galore->rank, 4);
  EXPECT_FALSE(all[0].recipe.tensorized.enabled);
  EXPECT_EQ(all[1].recipe, recipe("unused", {"run.threads=1"}));
  EXPECT_FALSE(all[2].recipe.tensorized.enabled);
  EXPECT_EQ(all[2].recipe.optim, all[1].recipe.optim);
  EXPECT_EQ(methods().size(), method_names().size());
  const std::vector<Method> others = methods_of(recipe("unused", {"run.threads=1"}),
                                                {.names = {"low_rank", "lte"}, .rates = {{"lte", 0.25}}});
  EXPECT_EQ(methods_of(recipe("unused", {"precision.compute=fp8"}), {}).size(), 3U)
      << "the others have no 8-bit products";
  EXPECT_EQ(others[0].recipe.low_rank->rank, 6);
  EXPECT_EQ(others[1].recipe.lte->num_heads, 32) << "divides micro-batches of 96 tokens";
  EXPECT_EQ(others[1].recipe.lte->merge_steps, 5) << "the recipe evaluates every 5 steps";
  EXPECT_EQ(others[1].recipe.phases[1].learning_rate.other, 0.25);
  EXPECT_EQ(others[0].recipe.phases, recipe("unused").phases);
  EXPECT_EQ(methods_of(recipe("unused"), {.names = {"galore"}})[0].recipe.optim.galore->rank, 6)
      << "a quarter of 24";
  EXPECT_THAT([&] { methods({"lora"}); }, testing::ThrowsMessage<UsageError>(HasSubstr(
                                              "'lora' is not a method; choose from tensor_trains, dense")));
  EXPECT_THAT([&] { methods_of(recipe("unused", {"tensorized.enabled=false"}), {}); },
              testing::ThrowsMessage<UsageError>(HasSubstr("leave tensorized.enabled at true")));
}

TEST_F(Methods, MemoryIsThatOfTheModelAndItsStep) {
  const MethodsReport report =
      benchmark_methods({.methods = methods({"tensor_trains", "dense", "galore", "low_rank", "lte"}),
                         .batches = {1, 3},
                         .length = 16,
                         .vocabulary = 500,
                         .rounds = 1,
                         .device = "cpu"});
  ASSERT_EQ(report.results.size(), 5U);
  for (const MethodResult& result : report.results) {
    ASSERT_EQ(result.costs.size(), 2U);
    for (const MethodCost& cost : result.costs) {
      EXPECT_GT(cost.least, 0);
      EXPECT_LE(cost.least, cost.seconds);
      EXPECT_LE(cost.seconds, cost.most);
      // Gates are no parameters of the model's size, and tensors begin at multiples of 64 bytes.
      EXPECT_GE(bytes_of(cost, MemoryKind::parameters), static_cast<std::size_t>(result.parameters) * 4);
      EXPECT_LT(bytes_of(cost, MemoryKind::parameters), static_cast<std::size_t>(result.parameters) * 6);
      EXPECT_EQ(bytes_of(cost, MemoryKind::gradients) == bytes_of(cost, MemoryKind::parameters),
                result.name != "lte")
          << "frozen weights have none";
      EXPECT_GT(bytes_of(cost, MemoryKind::activations), 0U);
    }
    EXPECT_GT(bytes_of(result.costs[1], MemoryKind::activations),
              bytes_of(result.costs[0], MemoryKind::activations));
    EXPECT_EQ(bytes_of(result.costs[0], MemoryKind::optimizer),
              bytes_of(result.costs[1], MemoryKind::optimizer));
  }
  EXPECT_THAT(
      [&] {
        benchmark_methods({.methods = methods({"lte"}), .batches = {1}, .length = 12, .vocabulary = 500});
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("cannot be divided among LTE's 8 heads")));
  const MethodResult &trains = report.results[0], &dense = report.results[1], &galore = report.results[2];
  EXPECT_LT(trains.parameters, dense.parameters);
  EXPECT_EQ(dense.parameters, galore.parameters);
  EXPECT_GE(bytes_of(dense.costs[0], MemoryKind::optimizer),
            2 * bytes_of(dense.costs[0], MemoryKind::parameters));
  EXPECT_LT(bytes_of(galore.costs[0], MemoryKind::optimizer),
            bytes_of(dense.costs[0], MemoryKind::optimizer));
  EXPECT_EQ(report.results[4].occasional.steps, 5);
  EXPECT_EQ(dense.occasional.steps, 0);
  EXPECT_EQ(galore.occasional.steps, 200);
  EXPECT_DOUBLE_EQ(galore.mean_seconds(galore.costs[0]),
                   galore.costs[0].seconds + galore.occasional.seconds / 200);

  const nlohmann::json json = nlohmann::json::parse(methods_json(report));
  for (const nlohmann::json& method : json.at("methods"))
    for (const nlohmann::json& step : method.at("steps")) {
      std::size_t sum = 0;
      for (const auto& [kind, bytes] : step.at("bytes_by_kind").items()) sum += bytes.get<std::size_t>();
      EXPECT_EQ(step.at("bytes"), sum);
    }
  EXPECT_THAT(methods_text(report), testing::AllOf(HasSubstr("batch 3"), HasSubstr("\ngalore ")));
  EXPECT_THAT(methods_svg(report), HasSubstr("peak memory, MiB"));
}

// Each learns from the same data as a run of its own would, and goes on where it stands.
TEST_F(Methods, LearnAsRunsOfTheirOwn) {
  const MethodsLearningOptions options{
      .methods = methods({"tensor_trains", "galore", "lte"}), .steps = 6, .output = folder() / "learn"};
  int asked = 0;
  MethodsLearningOptions stopping = options;
  stopping.stop_requested = [&] { return ++asked == 9; };  // in the middle of the second
  EXPECT_FALSE(learn_methods(stopping));
  EXPECT_TRUE(learn_methods(options));
  MethodsLearningOptions longer = options;
  longer.steps = 7;
  EXPECT_THAT([&] { check_learning(longer); },
              testing::ThrowsMessage<UsageError>(HasSubstr("started with other settings")));
  const std::string text = report_learning(options);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("tensor_trains"), HasSubstr("galore")));
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(folder() / "learn/learning.json"));
  ASSERT_EQ(json.size(), 3U);

  Recipe alone = methods({"galore"})[0].recipe;
  alone.phases.resize(1);
  alone.phases[0].steps = 6, alone.phases[0].warmup_steps = 0;
  alone.run.output = (folder() / "alone").string();
  const TrainingOutcome outcome = TrainingRun(alone, {}).run();
  EXPECT_EQ(json[1].at("held_out").back().at("loss").get<double>(), outcome.evaluation->loss);
  EXPECT_EQ(json[1].at("training").back().at("step"), 6);
  EXPECT_GT(json[1].at("training").back().at("seconds").get<double>(), 0);
  EXPECT_TRUE(std::filesystem::exists(folder() / "learn/learning.svg"));
}

}  // namespace
}  // namespace comera::test
