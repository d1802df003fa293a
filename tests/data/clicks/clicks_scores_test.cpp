#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "data/clicks/click_scores.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Predictions {
  std::vector<double> logits;
  std::vector<float> labels;
};

// Logits that are quarters, so that many are equal.
Predictions tied() {
  Predictions p;
  for (int i = 0; i < 40; ++i) {
    p.logits.push_back((i * 37 % 23 - 11) / 4.0);
    p.labels.push_back((i * i * 7 + 3 * i) % 5 < 2 ? 1 : 0);
  }
  return p;
}

// Over all pairs of a click and another.
double slow_auc(const Predictions& p) {
  double pairs = 0, won = 0;
  for (std::size_t i = 0; i < p.labels.size(); ++i)
    for (std::size_t j = 0; j < p.labels.size(); ++j) {
      if (p.labels[i] != 1 || p.labels[j] != 0) continue;
      pairs += 1;
      won += p.logits[i] > p.logits[j] ? 1 : p.logits[i] == p.logits[j] ? 0.5 : 0;
    }
  return won / pairs;
}

TEST(ClickScores, AreThoseOfScikitLearn) {
  const Predictions p = tied();
  const ClickScores scores = click_scores(p.logits, p.labels);
  // scikit-learn 1.9.1: roc_auc_score, log_loss, accuracy_score; the last over log_loss of the mean label.
  EXPECT_EQ(scores.examples, 40);
  EXPECT_NEAR(scores.auc, 0.4817708333333333, 1e-14);
  EXPECT_NEAR(scores.loss, 1.0148920874905105, 1e-14);
  EXPECT_NEAR(scores.accuracy, 0.525, 1e-14);
  EXPECT_NEAR(scores.normalised_entropy, 1.5079858748965078, 1e-14);
}

TEST(ClickScores, AucCountsPairs) {
  std::mt19937_64 random(1);
  for (const int levels : {2, 5, 50, 1000000})
    for (const int n : {2, 3, 17, 300}) {
      Predictions p;
      for (int i = 0; i < n; ++i) {
        p.logits.push_back(static_cast<double>(random() % levels) - 0.5 * levels);
        p.labels.push_back(i == 0 ? 1.0f : i == 1 ? 0.0f : static_cast<float>(random() % 3 == 0));
      }
      EXPECT_NEAR(click_scores(p.logits, p.labels).auc, slow_auc(p), 1e-13) << n << " of " << levels;
    }
}

TEST(ClickScores, OfPerfectWorstAndConstantPredictions) {
  const std::vector<float> labels = {0, 1, 0, 1, 1};
  const auto auc = [&](const std::vector<double>& logits) { return click_scores(logits, labels).auc; };
  EXPECT_EQ(auc({-1, 2, -3, 3, 1}), 1);
  EXPECT_EQ(auc({1, -2, 3, -3, -1}), 0);
  const ClickScores constant = click_scores(std::vector<double>(5, std::log(0.6 / 0.4)), labels);
  EXPECT_EQ(constant.auc, 0.5);
  EXPECT_NEAR(constant.normalised_entropy, 1, 1e-14);
  EXPECT_DOUBLE_EQ(constant.accuracy, 0.6);
}

TEST(ClickScores, AreExactForLargeLogits) {
  EXPECT_EQ(log_loss(1000, true), 0);
  EXPECT_EQ(log_loss(-1000, true), 1000);
  EXPECT_EQ(log_loss(1000, false), 1000);
  EXPECT_EQ(log_loss(-1000, false), 0);
  EXPECT_DOUBLE_EQ(log_loss(40, true), std::exp(-40.0));
  EXPECT_DOUBLE_EQ(log_loss(0, true), std::log(2.0));
  EXPECT_EQ(click_probability(1000), 1);
  EXPECT_EQ(click_probability(-1000), 0);
  EXPECT_DOUBLE_EQ(click_probability(-40), std::exp(-40.0));
  const ClickScores scores =
      click_scores(std::vector<double>{1000, -1000, 1000, -1000}, std::vector<float>{1, 0, 0, 1});
  EXPECT_EQ(scores.loss, 500);
  EXPECT_EQ(scores.auc, 0.5);
  EXPECT_DOUBLE_EQ(scores.normalised_entropy, 500 / std::log(2.0));
}

TEST(ClickScores, EntropyIsTheExpectedLoss) {
  for (const double logit : {-30.0, -3.0, -0.5, 0.0, 0.1, 2.0, 30.0}) {
    const double p = click_probability(logit);
    EXPECT_NEAR(click_entropy(logit), p * log_loss(logit, true) + (1 - p) * log_loss(logit, false), 1e-14);
  }
  EXPECT_EQ(click_entropy(1000), 0);
  EXPECT_EQ(click_entropy(-infinity), 0);
}

TEST(ClickScores, SayByNaNWhatIsNotDefined) {
  for (const float label : {0.0f, 1.0f}) {
    const ClickScores scores = click_scores(std::vector<double>{1, -1}, std::vector<float>{label, label});
    EXPECT_TRUE(std::isnan(scores.auc));
    EXPECT_TRUE(std::isnan(scores.normalised_entropy));
    EXPECT_TRUE(std::isfinite(scores.loss));
    EXPECT_EQ(scores.accuracy, 0.5);
    EXPECT_THAT(describe(scores), HasSubstr("all labels are"));
  }
  for (const double bad : {std::nan(""), infinity, -infinity}) {
    const ClickScores scores = click_scores(std::vector<double>{1, bad}, std::vector<float>{1, 0});
    EXPECT_TRUE(std::isnan(scores.auc) && std::isnan(scores.loss) && std::isnan(scores.accuracy) &&
                std::isnan(scores.normalised_entropy));
    EXPECT_EQ(scores.click_rate, 0.5);
    EXPECT_THAT(describe(scores), HasSubstr("not finite"));
  }
}

TEST(ClickScores, RefuseWhatCannotBeScored) {
  const std::vector<double> logits = {1, 2};
  EXPECT_THAT(test::error_of([&] { click_scores(logits, std::vector<float>{1}); }),
              HasSubstr("2 logits cannot be scored against 1 labels"));
  EXPECT_THAT(test::error_of([&] { click_scores({}, {}); }), HasSubstr("no examples"));
  EXPECT_THAT(test::error_of([&] {
                click_scores(logits, std::vector<float>{1, 0.5});
              }),
              HasSubstr("example 1 has label 0.5"));
}

TEST(ClickScores, AreDescribedInALine) {
  const Predictions p = tied();
  ClickScores scores = click_scores(p.logits, p.labels);
  scores.set = "validation";
  EXPECT_EQ(describe(scores),
            "validation: AUC 0.4818, log loss 1.0149 (1.5080 of guessing the click rate), accuracy 52.50 %, "
            "clicks 40.00 %, 40 examples");
}

}  // namespace
}  // namespace comera::data
