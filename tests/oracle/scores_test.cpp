// Scores of tasks against scikit-learn's and scipy's (make_score_cases.py), degenerate ones included.
#include "data/tasks/scores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace comera::data {
namespace {

using nlohmann::json;

json cases() {
  std::ifstream file(SCORES_FIXTURE);
  return json::parse(file);
}

TEST(ScoresOracle, ClassesAsScikitLearn) {
  int seen = 0;
  const json all = cases();
  for (const json& tested : all["classes"]) {
    const auto classes = tested["classes"].get<std::int64_t>();
    const auto truth = tested["truth"].get<std::vector<std::int32_t>>(),
               predicted = tested["predicted"].get<std::vector<std::int32_t>>();
    std::vector<double> logits(truth.size() * static_cast<std::size_t>(classes), -1.5);
    for (std::size_t i = 0; i < truth.size(); ++i)
      logits[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(predicted[i])] = 0.5;
    const TaskScores scores = classification_scores(logits, truth, classes);
    EXPECT_NEAR(scores.accuracy, tested["accuracy"].get<double>(), 1e-12) << tested["name"];
    EXPECT_NEAR(scores.f1, tested["f1"].get<double>(), 1e-12) << tested["name"];
    EXPECT_NEAR(scores.matthews, tested["matthews"].get<double>(), 1e-12) << tested["name"];
    ++seen;
  }
  EXPECT_EQ(seen, 15);
}

TEST(ScoresOracle, CorrelationsAsScipy) {
  int seen = 0;
  const json all = cases();
  for (const json& tested : all["scores"]) {
    const TaskScores scores = regression_scores(tested["predicted"].get<std::vector<double>>(),
                                                tested["truth"].get<std::vector<float>>());
    EXPECT_NEAR(scores.pearson, tested["pearson"].get<double>(), 1e-12) << tested["name"];
    EXPECT_NEAR(scores.spearman, tested["spearman"].get<double>(), 1e-12) << tested["name"];
    ++seen;
  }
  EXPECT_EQ(seen, 8);
}

TEST(ScoresOracle, SeveralLabelsAsScikitLearn) {
  int seen = 0;
  const json all = cases();
  for (const json& tested : all["labels"]) {
    std::vector<float> truth;
    std::vector<double> logits;
    std::int64_t labels = 0;
    for (const json& row : tested["truth"]) {
      for (const json& value : row) truth.push_back(value.get<float>());
      labels = std::ssize(row);
    }
    for (const json& row : tested["predicted"])
      for (const json& value : row) logits.push_back(value.get<int>() == 1 ? 0.5 : -1.5);
    const TaskScores scores = multi_label_scores(logits, truth, labels);
    EXPECT_NEAR(scores.accuracy, tested["accuracy"].get<double>(), 1e-12) << tested["name"];
    EXPECT_NEAR(scores.micro_f1, tested["micro"].get<double>(), 1e-12) << tested["name"];
    EXPECT_NEAR(scores.macro_f1, tested["macro"].get<double>(), 1e-12) << tested["name"];
    ++seen;
  }
  EXPECT_EQ(seen, 8);
}

}  // namespace
}  // namespace comera::data
