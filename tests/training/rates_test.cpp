#include <gmock/gmock.h>

#include <cmath>

#include "data/folder.h"
#include "recipes/run/rate_test.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RateTestRuns : public TrainingFixture {
 protected:
  RateReport report_of(const std::string& rates, std::int64_t steps) {
    const auto found =
        find_rates(recipe("run", {"run.threads=2", "phase.0.learning_rate=" + rates}), quiet(steps));
    EXPECT_TRUE(found.has_value());
    return *found;
  }
  static RateTestOptions quiet(std::int64_t steps) {
    static std::FILE* nowhere = std::fopen("/dev/null", "w");
    return {.minutes = 1e6, .steps = steps, .output = nowhere};
  }
};

void expect_equal(const RateReport& a, const RateReport& b) {
  ASSERT_EQ(a.curves.size(), b.curves.size());
  for (std::size_t i = 0; i < a.curves.size(); ++i) {
    ASSERT_EQ(a.curves[i].second.size(), b.curves[i].second.size());
    for (std::size_t j = 0; j < a.curves[i].second.size(); ++j) {
      EXPECT_EQ(a.curves[i].second[j].rates, b.curves[i].second[j].rates);
      EXPECT_EQ(a.curves[i].second[j].loss, b.curves[i].second[j].loss);
    }
  }
  EXPECT_EQ(a.advised, b.advised);
}

TEST_F(RateTestRuns, RatesThatAreTooLowAreRaised) {
  const RateReport report = report_of("1e-5", 40);
  expect_equal(report, report_of("1e-5", 40));
  std::vector<std::string> names;
  for (const auto& [name, trials] : report.curves) {
    names.push_back(name);
    ASSERT_GE(trials.size(), 2u) << name;
    // By rising rate, and the best is what the next kind begins with.
    for (std::size_t i = 1; i < trials.size(); ++i) {
      const LearningRates &less = trials[i - 1].rates, &more = trials[i].rates;
      EXPECT_GT(more.cores + more.gates + more.rest, less.cores + less.gates + less.rest);
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("all", "cores", "gates", "rest"));
  EXPECT_GT(report.advised.rest, 1e-4);
  EXPECT_GT(report.advised.cores, 1e-4);
  // Nothing but rates differs: the model learns with those that are advised.
  const auto best = std::ranges::min_element(report.curves.back().second, {}, &RateTrial::loss);
  EXPECT_LT(best->loss, report.start_loss - 0.3);
  const std::string text = describe(report);
  EXPECT_THAT(text, HasSubstr("advised  --set 'phase.0.learning_rate={cores = "));
  EXPECT_THAT(svg_of(plot_of(report, {1e-5, 1e-5, 1e-5})), HasSubstr("powers of two of the recipe's rates"));
  EXPECT_FALSE(fs::exists(folder() / "run")) << "nothing is written";
}

TEST_F(RateTestRuns, RatesThatDivergeAreLowered) {
  const RateReport report = report_of("16", 20);
  EXPECT_LT(report.advised.rest, 1);
  EXPECT_LE(report.curves.front().second.front().rates.rest, 0.5);
}

TEST_F(RateTestRuns, AKindWithoutARateOrWithoutParametersHasNoCurve) {
  const auto dense =
      find_rates(recipe("run", {"tensorized.enabled=false", "phase.0.learning_rate=1e-3"}), quiet(20));
  ASSERT_TRUE(dense);
  ASSERT_EQ(dense->curves.size(), 2u);
  EXPECT_EQ(dense->curves[1].first, "rest");
  const RateReport fixed = report_of("{cores = 1e-3, gates = 0, rest = 1e-3}", 20);
  EXPECT_EQ(fixed.curves.size(), 3u);
  EXPECT_EQ(fixed.advised.gates, 0);
  EXPECT_THAT([&] { report_of("0", 20); },
              testing::ThrowsMessage<UsageError>(HasSubstr("learning_rate is 0")));
}

TEST_F(RateTestRuns, StopsWhenItIsAsked) {
  RateTestOptions options = quiet(1000);
  int steps = 0;
  options.stop_requested = [&] { return ++steps > 5; };
  EXPECT_FALSE(find_rates(recipe("run", {}), options));
  EXPECT_EQ(steps, 6);
}

TEST_F(RateTestRuns, TooFewMinutesAreRefused) {
  RateTestOptions options = quiet(0);
  options.minutes = 1e-9;
  EXPECT_THAT([&] { find_rates(recipe("run", {}), options); },
              testing::ThrowsMessage<UsageError>(HasSubstr("give so many")));
}

TEST_F(RateTestRuns, AsACommand) {
  const std::string recipe_file = write_recipe().string();
  const std::string plot = (folder() / "plots/rates.svg").string();
  const ProgramResult result = run_program(
      {"pretrain", recipe_file, "--find-rate", "--minutes", "0.15", "--plot", plot, "--set", "model.layers=1",
       "--set", "phase.0.packs_per_step=1", "--set", "phase.0.tokens_per_pack=64"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("advised  --set"));
  EXPECT_TRUE(fs::exists(plot));
  expect(run_program({"pretrain", recipe_file, "--minutes", "3"}), 2, {"--minutes", "--find-rate"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--plot", "rates.png"}), 2,
         {"rates.png", ".svg"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--resume", "auto"}), 2, {"--resume"});
}

}  // namespace
}  // namespace comera::test
