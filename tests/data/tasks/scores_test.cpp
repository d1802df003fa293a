#include "data/tasks/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace comera::data {
namespace {

// The values were worked out apart from the code, with Python's fractions and 40 digits of its decimals:
// Matthews' correlation as that of the one-hot codes, 13/6 over 11/3.
TEST(Scores, Classification) {
  const std::vector<double> logits = {2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 1, 2, 1, 0, 0};
  const std::vector<std::int32_t> labels = {0, 1, 2, 1, 1, 0};
  const TaskScores scores = classification_scores(logits, labels, 3);
  EXPECT_EQ(scores.examples, 6);
  EXPECT_DOUBLE_EQ(scores.accuracy, 0.6666666666666667);
  EXPECT_NEAR(scores.standard_error, 0.19245008972987526, 1e-15);
  EXPECT_DOUBLE_EQ(scores.majority, 0.5);
  EXPECT_NEAR(scores.f1, 0.6555555555555556, 1e-12);  // of the classes: 4/5, 1/2, 2/3
  EXPECT_NEAR(scores.matthews, 0.5909090909090909, 1e-12);
  EXPECT_NEAR(scores.loss, 0.7327346381472298, 1e-12);
}

// The example of scikit-learn's f1_score: F1 of the labels 2/3, 1 and 2/3; micro 0.8; accuracy_score 2/3.
TEST(Scores, SeveralLabels) {
  const std::vector<float> wanted = {0, 0, 0, 1, 1, 1, 0, 1, 1};
  const std::vector<double> logits = {-1, -2, -1, 3, 1, 2, 1, 1, -1};
  const TaskScores scores = multi_label_scores(logits, wanted, 3);
  EXPECT_EQ(scores.examples, 3);
  EXPECT_NEAR(scores.macro_f1, 7 / 9., 1e-12);
  EXPECT_NEAR(scores.micro_f1, 0.8, 1e-12);
  EXPECT_NEAR(scores.accuracy, 2 / 3., 1e-12);
  double loss = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    loss -= wanted[i] > 0 ? std::log(p) : std::log(1 - p);
  }
  EXPECT_NEAR(scores.loss, loss / 9, 1e-12);
  // A label that is nowhere has an F1 of 0 (zero_division=0).
  EXPECT_NEAR(multi_label_scores(std::vector<double>{1, -1}, std::vector<float>{1, 0}, 2).macro_f1, 0.5,
              1e-12);
}

TEST(Scores, TwoClassesAndConstantPredictions) {
  // Predictions 1 1 1 0, labels 1 0 1 1: precision 2/3, recall 2/3.
  const TaskScores two = classification_scores(std::vector<double>{0, 1, 0, 1, 0, 1, 1, 0},
                                               std::vector<std::int32_t>{1, 0, 1, 1}, 2);
  EXPECT_NEAR(two.f1, 2.0 / 3, 1e-12);
  EXPECT_NEAR(two.matthews, -1.0 / 3, 1e-12);
  const TaskScores constant =
      classification_scores(std::vector<double>{1, 0, 1, 0, 1, 0}, std::vector<std::int32_t>{0, 1, 0}, 2);
  EXPECT_EQ(constant.matthews, 0);
  EXPECT_EQ(constant.f1, 0);
}

TEST(Scores, Regression) {
  const TaskScores scores =
      regression_scores(std::vector<double>{1, 2, 3, 4, 5}, std::vector<float>{2, 1, 4, 3, 5});
  EXPECT_NEAR(scores.pearson, 0.8, 1e-12);
  EXPECT_NEAR(scores.spearman, 0.8, 1e-12);
  EXPECT_NEAR(scores.loss, 0.8, 1e-12);
  // Equal values share their mean rank: ranks 1.5 1.5 3 against 1 2 3.
  const TaskScores ties = regression_scores(std::vector<double>{7, 7, 9}, std::vector<float>{1, 2, 3});
  EXPECT_NEAR(ties.spearman, 1.5 / std::sqrt(1.5 * 2), 1e-12);
  EXPECT_EQ(regression_scores(std::vector<double>{1, 1}, std::vector<float>{1, 2}).pearson, 0);
}

}  // namespace
}  // namespace comera::data
