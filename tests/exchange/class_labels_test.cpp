#include "exchange/transformers/class_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace comera::exchange {
namespace {

using Json = nlohmann::json;
using test::error_of;
using testing::HasSubstr;

SequenceAnswers answers_of(const Json& config) { return read_answers(ConfigMembers(config, "config.json")); }
std::vector<std::string> labels_of(const Json& config) { return answers_of(config).labels; }

// As transformers 5.24 takes each.
TEST(ClassLabels, AreThoseOfTransformers) {
  using Labels = std::vector<std::string>;
  const Labels numbered = {"LABEL_0", "LABEL_1", "LABEL_2"}, named = {"a", "b", "c"};
  const Json names = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  EXPECT_EQ(labels_of(Json::object()), (Labels{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(labels_of({{"num_labels", 3}}), numbered);
  EXPECT_EQ(labels_of({{"num_labels", 3}, {"id2label", nullptr}}), numbered);
  EXPECT_EQ(labels_of({{"num_labels", 3}, {"label2id", {{"a", 0}}}}), numbered);
  EXPECT_EQ(labels_of({{"id2label", names}}), named);
  EXPECT_EQ(labels_of({{"id2label", names}, {"num_labels", 3}}), named);
  EXPECT_EQ(labels_of({{"id2label", names}, {"num_labels", 2}}), (Labels{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(labels_of({{"id2label",
                        {{"2", "c"},
                         {"10", "k"},
                         {"0", "a"},
                         {"1", "b"},
                         {"3", "d"},
                         {"4", "e"},
                         {"5", "f"},
                         {"6", "g"},
                         {"7", "h"},
                         {"8", "i"},
                         {"9", "j"}}}}),
            (Labels{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}));
  EXPECT_EQ(labels_of({{"id2label", {{"0", 0}, {"1", 1}, {"2", 2.5}}}}), (Labels{"0", "1", "2.5"}));
  EXPECT_EQ(labels_of({{"id2label", {{" 0", "a"}, {"01", "b"}}}}), (Labels{"a", "b"}));
}

TEST(ClassLabels, ScoresHaveNone) {
  for (const Json& config : {Json{{"num_labels", 1}}, Json{{"id2label", {{"0", "LABEL_0"}}}},
                             Json{{"num_labels", 1}, {"problem_type", "regression"}}}) {
    EXPECT_TRUE(answers_of(config).regression) << config;
    EXPECT_EQ(answers_of(config).count, 1);
    EXPECT_TRUE(labels_of(config).empty());
  }
}

TEST(ClassLabels, ThatCannotBeToldApartAreRefused) {
  const struct {
    Json config;
    const char* error;
  } cases[] = {
      {{{"id2label", {{"0", "a"}, {"1", "a"}}}}, "id2label names classes 0 and 1 alike, 'a'"},
      {{{"id2label", {{"0", "a"}, {"00", "b"}}}}, "two names for class 0"},
      {{{"id2label", {{"1", "a"}, {"2", "b"}}}}, "no name for class 0"},
      {{{"id2label", {{"a", 0}, {"b", 1}}}}, "the key 'a', which is not a class number"},
      {{{"id2label", {{"0", ""}, {"1", "b"}}}}, "an empty name for class 0"},
      {{{"id2label", {{"0", "a"}, {"1", " b"}}}}, "without the spaces around them"},
      {{{"id2label", {{"0", nullptr}, {"1", "b"}}}}, "names class 0 null"},
      {{{"id2label", {{"0", true}, {"1", false}}}}, "names class 0 true"},
      {{{"id2label", {"a", "b"}}}, "id2label is not an object"},
      {{{"id2label", Json::object()}}, "0 classes cannot be imported (id2label)"},
      {{{"num_labels", 0}}, "0 classes cannot be imported (num_labels)"},
      {{{"num_labels", "3"}}, "num_labels = \"3\" is of the wrong kind"},
      {{{"num_labels", 3}, {"problem_type", "regression"}}, "with 3 scores at once"},
      {{{"num_labels", 1}, {"problem_type", "single_label_classification"}}, "with one class"},
      {{{"num_labels", 3}, {"problem_type", "other"}}, "problem_type = \"other\""},
  };
  for (const auto& refused : cases) {
    const std::string error = error_of([&] { answers_of(refused.config); });
    EXPECT_THAT(error, HasSubstr(refused.error)) << refused.config;
    EXPECT_THAT(error, testing::StartsWith("config.json: "));
  }
}

}  // namespace
}  // namespace comera::exchange
