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

}  // namespace
}  // namespace comera::data
