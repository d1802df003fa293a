#include <gmock/gmock.h>

#include <cmath>

#include "storage/folder.h"
#include "tests/training/training_fixture.h"
#include "training/rates/rate_search.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RateSearch : public TrainingFixture {
 protected:
  RateReport report_of(const std::string& rates, std::int64_t steps) {
    return find_rates(recipe("run", {"run.threads=1", "phase.0.learning_rate=" + rates}), quiet(steps));
  }
  static RateSearchOptions quiet(std::int64_t steps) {
    static std::FILE* nowhere = std::fopen("/dev/null", "w");
    return {.minutes = 1e6, .steps = steps, .output = nowhere};
  }
};

void expect_equal(const RateReport& a, const RateReport& b) {
  ASSERT_EQ(a.curves.size(), b.curves.size());
  for (std::size_t i = 0; i < a.curves.size(); ++i) {
    ASSERT_EQ(a.curves[i].trials.size(), b.curves[i].trials.size());
    for (std::size_t j = 0; j < a.curves[i].trials.size(); ++j) {
      EXPECT_EQ(a.curves[i].trials[j].rates, b.curves[i].trials[j].rates);
      EXPECT_EQ(a.curves[i].trials[j].loss, b.curves[i].trials[j].loss);
    }
  }
  EXPECT_EQ(a.advised, b.advised);
}

TEST_F(RateSearch, RatesThatAreTooLowAreRaised) {
  const RateReport report = report_of("1e-5", 40);
  expect_equal(report, report_of("1e-5", 40));
  std::vector<std::string> names;
  for (const RateCurve& curve : report.curves) {
    names.push_back(curve.name);
    ASSERT_GE(curve.trials.size(), 2u) << curve.name;
    for (std::size_t i = 1; i < curve.trials.size(); ++i) {  // by rising rate
      const LearningRates &less = curve.trials[i - 1].rates, &more = curve.trials[i].rates;
      EXPECT_GT(more.cores + more.gates + more.other, less.cores + less.gates + less.other);
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("all", "cores", "gates", "other"));
  // A kind begins with what was chosen before, and the last choice is what is advised.
  for (std::size_t i = 1; i < report.curves.size(); ++i) {
    const RateCurve &before = report.curves[i - 1], &curve = report.curves[i];
    EXPECT_THAT(curve.trials,
                testing::Contains(testing::Field(&RateTrial::rates, before.trials[before.chosen].rates)));
    EXPECT_LE(curve.trials[curve.chosen].loss, before.trials[before.chosen].loss);
  }
  const RateCurve& last = report.curves.back();
  EXPECT_LE(report.advised.other, last.trials[last.chosen].rates.other);
  EXPECT_GT(report.advised.other, last.trials[last.chosen].rates.other / 1.5);
  EXPECT_GT(report.advised.other, 1e-4);
  EXPECT_GT(report.advised.cores, 1e-4);
  EXPECT_LT(last.trials[last.chosen].loss, report.start_loss - 0.3);
  const std::string text = describe(report);
  EXPECT_THAT(text, HasSubstr("fewer than 150 steps"));
  EXPECT_THAT(text, HasSubstr("advised  --set 'phase.0.learning_rate={cores = "));
  EXPECT_THAT(text, HasSubstr("differences of less than 0.01 nats do not count"));
  std::size_t marks = 0;
  for (std::size_t at = text.find("<- advised"); at != std::string::npos;
       at = text.find("<- advised", at + 1))
    ++marks;
  EXPECT_EQ(marks, 3U) << text;  // one for each kind
  EXPECT_THAT(svg_of(plot_of(report, {1e-5, 1e-5, 1e-5})),
              HasSubstr("learning rate relative to the recipe's, as a power of two"));
  EXPECT_FALSE(fs::exists(folder() / "run")) << "nothing is written";
}

// Losses of a regression are compared by the variance of its scores.
TEST(RateReport, MeasuresByTheUnitOfTheLoss) {
  RateReport report{.steps = 200, .start_loss = 1000, .least_gain = 0.02, .advised = {1e-3, 1e-3, 1e-3}};
  report.curves = {
      {.name = "all", .trials = {{.rates = {1e-3, 1e-3, 1e-3}, .loss = 990, .steps = 200}}, .chosen = 0}};
  EXPECT_THAT(describe(report), HasSubstr("differences of less than 0.01 nats do not count"));
  report.unit = 300;
  EXPECT_THAT(describe(report), HasSubstr("differences of less than 3 do not count"));
  report.unit = 1000;  // of which the best trial has gained a hundredth
  EXPECT_THAT(describe(report), HasSubstr("too short to compare"));
}

TEST_F(RateSearch, RatesThatDivergeAreLowered) {
  EXPECT_LT(report_of("16", 20).advised.other, 1);
  // Nothing is finite within the first range.
  const RateReport far = report_of("1e4", 5);
  const RateCurve& all = far.curves.front();
  EXPECT_TRUE(std::isfinite(all.trials[all.chosen].loss));
  EXPECT_TRUE(std::isinf(all.trials.back().loss));
  EXPECT_THAT(describe(far), HasSubstr("diverged"));
}

TEST_F(RateSearch, AKindWithoutARateOrWithoutParametersHasNoCurve) {
  const RateReport dense = find_rates(
      recipe("run", {"run.threads=1", "tensorized.enabled=false", "phase.0.learning_rate=1e-3"}), quiet(20));
  ASSERT_EQ(dense.curves.size(), 2u);
  EXPECT_EQ(dense.curves[1].name, "other");
  const RateReport fixed = report_of("{cores = 1e-3, gates = 0, other = 1e-3}", 20);
  EXPECT_EQ(fixed.curves.size(), 3u);
  EXPECT_EQ(fixed.advised.gates, 0);
  EXPECT_THAT([&] { report_of("0", 20); },
              testing::ThrowsMessage<UsageError>(HasSubstr("learning_rate is 0")));
}

// The embedding's cores have a curve where they have a rate of their own; a dense model's matrices have one.
TEST_F(RateSearch, RatesOfMuonAreFoundToo) {
  const std::string rates = "learning_rate={cores = 1e-4, embedding = 1e-4, gates = 1e-3, other = 1e-3}";
  const std::vector<std::string> muon = {"run.threads=1", "optim.name=muon", "phase.0." + rates,
                                         "phase.1." + rates};
  const auto names_of = [](const RateReport& report) {
    std::vector<std::string> names;
    for (const RateCurve& curve : report.curves) names.push_back(curve.name);
    return names;
  };
  const RateReport report = find_rates(recipe("run", muon), quiet(40));
  EXPECT_THAT(names_of(report), testing::ElementsAre("all", "cores", "embedding", "gates", "other"));
  EXPECT_GT(report.advised.cores, 1e-3);
  EXPECT_GT(*report.advised.embedding, 1e-3);
  EXPECT_THAT(describe(report), HasSubstr(", embedding = "));
  std::vector<std::string> dense = muon;
  dense.emplace_back("tensorized.enabled=false");
  EXPECT_THAT(names_of(find_rates(recipe("run", dense), quiet(10))),
              testing::ElementsAre("all", "cores", "other"));
}

TEST_F(RateSearch, StopsWhenItIsAsked) {
  RateSearchOptions options = quiet(1000);
  int steps = 0;
  options.stop_requested = [&] { return ++steps > 5; };
  const RateReport early = find_rates(recipe("run", {"run.threads=1"}), options);
  EXPECT_EQ(steps, 6);
  EXPECT_TRUE(early.stopped);
  EXPECT_TRUE(early.curves.empty());
  EXPECT_THAT(describe(early), HasSubstr("no recommendation"));
  // In the middle of the third trial: two have something to say.
  options = quiet(10), steps = 0;
  options.stop_requested = [&] { return ++steps > 25; };
  const RateReport later = find_rates(recipe("run", {"run.threads=1"}), options);
  EXPECT_TRUE(later.stopped);
  ASSERT_EQ(later.curves.size(), 1u);
  EXPECT_EQ(later.curves[0].trials.size(), 2u);
  EXPECT_THAT(describe(later),
              AllOf(HasSubstr("#"), HasSubstr("no recommendation"), Not(HasSubstr("advised"))));
}

TEST_F(RateSearch, TooFewMinutesAreRefused) {
  RateSearchOptions options = quiet(0);
  options.minutes = 1e-9;
  EXPECT_THAT([&] { find_rates(recipe("run", {"run.threads=1"}), options); },
              testing::ThrowsMessage<UsageError>(HasSubstr("raise it")));
}

TEST_F(RateSearch, AsACommand) {
  const std::string recipe_file = write_recipe().string();
  const std::string plot = (folder() / "plots/rates.svg").string();
  const ProgramResult result =
      run_program({"pretrain", recipe_file, "--find-rate", "--trial-steps", "10", "--plot", plot});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("advised  --set"));
  const ProgramResult short_ones =
      run_program({"pretrain", recipe_file, "--find-rate", "--trial-steps", "1"});
  EXPECT_EQ(short_ones.code, 0) << short_ones.output;
  EXPECT_THAT(short_ones.output, HasSubstr("too short to compare learning rates"));
  EXPECT_THAT(short_ones.output, testing::Not(HasSubstr("advised")));
  EXPECT_TRUE(fs::exists(plot));
  expect(run_program({"pretrain", recipe_file, "--minutes", "3"}), 2, {"--minutes", "--find-rate"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--plot", "rates.png"}), 2,
         {"rates.png", ".svg"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--resume", "auto"}), 2, {"--resume"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--stop-after", "3"}), 2, {"--stop-after"});
  expect(run_program({"pretrain", recipe_file, "--find-rate", "--set", "model.head=classification"}), 2,
         {"cannot be pretrained"});
}

}  // namespace
}  // namespace comera::test
