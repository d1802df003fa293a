// Entities as seqeval counts them, and answers as SQuAD's script does (make_annotation_cases.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/annotations/answer_scores.h"
#include "data/annotations/entity_scores.h"

namespace comera::data {
namespace {

using nlohmann::json;

const json& cases() {
  static const json all = json::parse(std::ifstream(ANNOTATIONS_FIXTURE));
  return all;
}

struct Labels {
  std::vector<std::string> all;
  std::vector<std::int64_t> ends;
};

Labels labels_of(const json& sentences) {
  Labels labels;
  for (const json& sentence : sentences) {
    std::istringstream words(sentence.get<std::string>());
    for (std::string label; words >> label;) labels.all.push_back(label);
    labels.ends.push_back(std::ssize(labels.all));
  }
  return labels;
}

void expect_same(const EntityCounts& counts, const json& said, const std::string& where) {
  EXPECT_NEAR(counts.precision(), said["precision"].get<double>(), 1e-12) << where;
  EXPECT_NEAR(counts.recall(), said["recall"].get<double>(), 1e-12) << where;
  EXPECT_NEAR(counts.f1(), said["f1"].get<double>(), 1e-12) << where;
}

TEST(AnnotationsOracle, EntitiesAsSeqeval) {
  std::int64_t sentences = 0, types = 0;
  for (const json& tested : cases()["entities"]) {
    const Labels wanted = labels_of(tested["wanted"]), predicted = labels_of(tested["predicted"]);
    const EntityScores scores = entity_scores(wanted.all, predicted.all, wanted.ends);
    const auto name = tested["name"].get<std::string>();
    expect_same(scores.all, tested, name);
    EXPECT_EQ(scores.types.size(), tested["types"].size()) << name;
    for (const auto& [type, said] : tested["types"].items()) {
      ASSERT_TRUE(scores.types.contains(type)) << name << " " << type;
      expect_same(scores.types.at(type), said, name + " " + type);
      EXPECT_EQ(scores.types.at(type).wanted, said["entities"].get<std::int64_t>());
      ++types;
    }
    sentences += std::ssize(wanted.ends);
  }
  EXPECT_GT(sentences, 1400);
  EXPECT_GT(types, 25);
}

TEST(AnnotationsOracle, AnswersAsSquad) {
  std::int64_t right = 0, partly = 0;
  for (const json& tested : cases()["answers"]) {
    const AnswerScores scores = answer_scores(tested["predicted"].get<std::string>(),
                                              tested["given"].get<std::vector<std::string>>());
    EXPECT_EQ(scores.exact_match, tested["exact_match"].get<double>()) << tested.dump();
    EXPECT_NEAR(scores.f1, tested["f1"].get<double>(), 1e-6) << tested.dump();
    right += scores.exact_match == 1 ? 1 : 0;
    partly += scores.f1 > 0 && scores.f1 < 1 ? 1 : 0;
  }
  EXPECT_EQ(cases()["answers"].size(), 1000U);
  EXPECT_GT(right, 100);
  EXPECT_GT(partly, 100);
}

// Where the script says something that no threshold gives.
TEST(QuestionScores, AreThoseOfAThreshold) {
  const std::vector<AnsweredQuestion> tied = {{"cat", 1, {"cat"}}, {"dog", 1, {}}};
  EXPECT_EQ(question_scores(tied, 0).apart.best_f1, 0.5);
  const std::vector<AnsweredQuestion> never = {{"cat", 1, {}}, {"dog", 2, {}}, {"dog", 3, {"cat"}}};
  const QuestionScores scores = question_scores(never, 0);
  EXPECT_EQ(scores.apart.best_f1, 2.0 / 3);
  EXPECT_LT(scores.apart.best_threshold, 1);
  EXPECT_EQ(scores.apart.f1, 0);
  EXPECT_EQ(scores.apart.recognised, 1);
  // All right, of any number of questions.
  const std::vector<AnsweredQuestion> right(10, {"cat", -1, {"cat"}});
  EXPECT_EQ(question_scores(right, 0).all.f1, 1);
}

TEST(AnnotationsOracle, QuestionsWithoutAnswersAsSquad) {
  std::int64_t questions = 0;
  for (const json& tested : cases()["unanswerable"]) {
    std::vector<AnsweredQuestion> answered;
    for (const json& each : tested["questions"])
      answered.push_back({.predicted = each["predicted"].get<std::string>(),
                          .no_answer = each["no_answer"].get<double>(),
                          .given = each["given"].get<std::vector<std::string>>()});
    const QuestionScores scores = question_scores(answered, tested["threshold"].get<double>());
    const auto expect = [&](double ours, const char* of, const char* score) {
      EXPECT_NEAR(ours, tested[of].value(score, 0.0), 1e-12) << of << " " << score << " " << answered.size();
    };
    expect(scores.all.exact_match, "all", "exact");
    expect(scores.all.f1, "all", "f1");
    expect(scores.apart.exact_match, "has", "exact");
    expect(scores.apart.f1, "has", "f1");
    expect(scores.apart.recognised, "none", "exact");
    EXPECT_NEAR(scores.apart.best_f1, tested["best_f1"].get<double>(), 1e-12);
    // The script's is the score of the last question that is answered.
    std::vector<double> order;
    for (const AnsweredQuestion& each : answered) order.push_back(each.no_answer);
    std::ranges::sort(order);
    if (answered.size() > 1) {
      const auto last = tested["best_threshold"].get<double>();
      const auto next = std::ranges::upper_bound(order, last);
      EXPECT_GT(scores.apart.best_threshold, last);
      EXPECT_LT(scores.apart.best_threshold, next == order.end() ? last + 1 : *next);
    }
    const auto none = std::ranges::count_if(answered, [](const auto& each) { return each.given.empty(); });
    EXPECT_EQ(scores.apart.questions, none);
    EXPECT_GE(question_scores(answered, scores.apart.best_threshold).all.f1, scores.apart.best_f1 - 1e-12);
    questions += std::ssize(answered);
  }
  EXPECT_EQ(questions, 1251);
}

}  // namespace
}  // namespace comera::data
