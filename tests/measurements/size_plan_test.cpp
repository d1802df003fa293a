#include "measurements/size_plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "measurements/loss_law.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

// The constants in the code belong to the runs that are checked in.
TEST(LossLaw, IsWhatTheRunsSay) {
  double squares = 0;
  int points = 0;
  std::stringstream file;
  for (const char* name : {"2026-11-26-h100-training.jsonl", "2026-11-26-plan-trial.jsonl",
                           "2026-11-26-h100-second-training.jsonl"})
    file << std::ifstream(std::string(COMERA_SOURCE_DIR "/bench/results/") + name).rdbuf();
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json run = nlohmann::json::parse(line);
    std::int64_t steps = 0;
    bool dense = false;
    for (const std::string setting : run["set"]) {
      if (setting.starts_with("phase.0.steps=")) steps = std::stoll(setting.substr(14));
      if (setting == "tensorized.enabled=false") dense = true;
    }
    for (const auto& point : run["curve"]) {
      if (dense || point[0] != steps) continue;
      const double expected =
          fitted_law().loss(run["parameters"].get<double>(), static_cast<double>(steps * 2048));
      squares += std::pow(expected - point[2].get<double>(), 2);
      ++points;
    }
  }
  ASSERT_GT(points, 15);
  EXPECT_LT(std::sqrt(squares / points), law_error());
  EXPECT_GT(std::sqrt(squares / points), 0.2 * law_error());
}

TEST(LossLaw, FallsWithParametersAndWithTokens) {
  EXPECT_GE(resampled_laws().size(), 20U);
  for (const LossLaw& law : resampled_laws())
    for (const double parameters : {2e5, 1e6, 5e6, 2e7})
      for (const double tokens : {1e6, 1e7, 1e9}) {
        EXPECT_LT(law.loss(2 * parameters, tokens), law.loss(parameters, tokens));
        EXPECT_LT(law.loss(parameters, 2 * tokens), law.loss(parameters, tokens));
      }
}

// A machine whose steps take as long as the model is large, for so many hours.
PlannedSize of_machine(const ModelSize& size, double hours) {
  PlannedSize planned;
  planned.size = size;
  planned.parameters = 6 * 30 * size.hidden * size.rank;
  const double seconds = 1e-7 * static_cast<double>(planned.parameters);
  planned.step_seconds = {seconds};
  planned.tokens = planned.first_tokens = hours * 3600 / seconds * 2048;
  planned.loss = fitted_law().loss(static_cast<double>(planned.parameters), planned.first_tokens);
  return planned;
}

TEST(SizePlan, ChoosesTheLeastLossOfAllWidthsAndRanks) {
  std::int64_t before = 0;
  for (const double hours : {0.01, 0.1, 1.0, 8.0, 100.0}) {
    const SizePlan plan = choose_size(6, [&](const ModelSize& size) { return of_machine(size, hours); });
    const PlannedSize& best = plan.sizes[plan.best];
    // Also those that the search did not come to.
    for (const std::int64_t hidden : {128, 192, 256, 320, 384, 448, 512, 640, 768, 1024, 1280, 1536})
      for (const std::int64_t share : {16, 8, 4})
        EXPECT_LE(best.loss, of_machine({6, hidden, hidden / share}, hours).loss) << hours << ' ' << hidden;
    EXPECT_GE(best.parameters, before) << hours;  // more time, no smaller model
    before = best.parameters;
    EXPECT_EQ(best.size.layers, 6);
    EXPECT_GE(plan.near_first, plan.first);
    EXPECT_LE(plan.least_loss, plan.most_loss);
    EXPECT_THAT(size_plan_advice(plan, 2048),
                HasSubstr(fmt::format("recommended: width {}, ranks {}", best.size.hidden, best.size.rank)));
  }
  EXPECT_GT(before, 10000000);
}

// Two widths that are worse end the search; one does not.
TEST(SizePlan, HoursThatTeachNothingAreNamed) {
  for (const double hours : {1e-6, 1.0, 8.0}) {
    const SizePlan plan = choose_size(6, [&](const ModelSize& size) { return of_machine(size, hours); });
    EXPECT_THAT(hours_note(plan, hours, 16384),
                testing::ContainsRegex(hours < 0.1 ? "plan more hours" : "^$"));
  }
}

TEST(SizePlan, GoesOnBehindOneWidthThatIsWorse) {
  std::map<std::int64_t, double> losses = {{128, 3.0}, {192, 2.5}, {256, 2.6},
                                           {320, 2.4}, {384, 2.5}, {448, 2.5}};
  const SizePlan plan = choose_size(6, [&](const ModelSize& size) {
    PlannedSize planned = of_machine(size, 1);
    planned.loss = losses.at(size.hidden);
    return planned;
  });
  EXPECT_EQ(plan.sizes[plan.best].size.hidden, 320);
  EXPECT_EQ(plan.sizes.back().size.hidden, 448);
}

TEST(SizePlan, SaysWhatTheLawDoesNotKnow) {
  const SizePlan known = choose_size(6, [&](const ModelSize& size) { return of_machine(size, 0.2); });
  EXPECT_THAT(size_plan_advice(known, 2048), testing::Not(HasSubstr("note:")));
  EXPECT_THAT(size_plan_advice(known, 4096), HasSubstr("steps of 2,048 tokens; this recipe's have 4,096"));
  const SizePlan large = choose_size(6, [&](const ModelSize& size) { return of_machine(size, 1000); });
  EXPECT_THAT(size_plan_advice(large, 2048), HasSubstr("outside of that it may be far off"));
}

// A size that does not fit ends the search, and what was found before is advised.
TEST(SizePlan, EndsWhereMemoryDoes) {
  const auto measure = [&](const ModelSize& size) {
    if (size.hidden == 320) throw OutOfMemory("320 is too wide");
    return of_machine(size, 100);
  };
  const SizePlan plan = choose_size(6, measure);
  EXPECT_EQ(plan.sizes[plan.best].size.hidden, 256);
  EXPECT_THAT(size_plan_advice(plan, 2048),
              HasSubstr("the search ended at width 320, ranks 20: 320 is too wide"));
  EXPECT_THROW(choose_size(6, [](const ModelSize&) -> PlannedSize { throw OutOfMemory("nothing fits"); }),
               OutOfMemory);
}

using SizePlanTest = TrainingFixture;

TEST_F(SizePlanTest, MeasuresStepsAndFillsTheHours) {
  const Recipe recipe = this->recipe("unused", {"run.threads=1", "run.device='cpu'", "run.max_hours=0.001"});
  std::size_t heard = 0;
  const SizePlan plan = plan_size(recipe, 400, [&](const PlannedSize&) { ++heard; });
  EXPECT_EQ(heard, plan.sizes.size());
  for (const PlannedSize& planned : plan.sizes) {
    ASSERT_EQ(planned.step_seconds.size(), 2U);
    // The phases' shares of the time are those of their tokens.
    double tokens = 0, all = 0;
    for (const PhaseSection& phase : recipe.phases)
      all += static_cast<double>(*phase.steps * phase.tokens_per_micro_batch * phase.micro_batches_per_step);
    for (std::size_t i = 0; i < 2; ++i) {
      const PhaseSection& phase = recipe.phases[i];
      const auto of_step = static_cast<double>(phase.tokens_per_micro_batch * phase.micro_batches_per_step);
      tokens += 3.6 * static_cast<double>(*phase.steps) * of_step / all / planned.step_seconds[i] * of_step;
    }
    EXPECT_NEAR(planned.tokens, tokens, 1e-6 * tokens);
    Recipe own = recipe;
    set_size(own, planned.size, 400);
    EXPECT_EQ(planned.parameters,
              Model(encoder_config(own, 400), host_allocator(), false).parameters().count());
  }
}

// The law is one of models with all layers, so that the tokens of a phase with fewer count towards it.
TEST_F(SizePlanTest, CountsTheTokensUpToTheEndOfAPhaseWithAllLayers) {
  Recipe recipe = this->recipe("unused", {"run.threads=1", "run.device='cpu'", "run.max_hours=0.0003"});
  const auto counts_all = [&] {
    const SizePlan plan = plan_size(recipe, 400, [](const PlannedSize&) {});
    return plan.sizes[0].first_tokens == plan.sizes[0].tokens;
  };
  EXPECT_FALSE(counts_all());
  recipe.phases[0].layers = 1;
  EXPECT_TRUE(counts_all());
}

TEST_F(SizePlanTest, RefusesPassesOverTheData) {
  const Recipe recipe = this->recipe("unused", {"run.max_hours=1"});
  Recipe passes = recipe;
  passes.phases[0].steps.reset();
  passes.phases[0].epochs = 2;
  EXPECT_THAT([&] { plan_size(passes, 400, [](const PlannedSize&) {}); },
              testing::ThrowsMessage<UsageError>(HasSubstr("give all phases steps")));
}

}  // namespace
}  // namespace comera::test
