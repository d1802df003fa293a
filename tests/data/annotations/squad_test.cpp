// Questions with answers in a text.
#include "data/annotations/squad_reader.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/annotations/question_examples.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A file of one text.
json file_of(const std::string& context, const std::vector<json>& questions) {
  return {{"version", "1.1"}, {"data", {{{"paragraphs", {{{"context", context}, {"qas", questions}}}}}}}};
}
json question(const std::string& id, const std::string& answer, int start,
              const std::string& text = "index?") {
  return {{"id", id}, {"question", text}, {"answers", {{{"text", answer}, {"answer_start", start}}}}};
}

class Squad : public testing::Test {
 protected:
  std::filesystem::path file(const json& content, const std::string& name = "t.json") const {
    return folder_.write(name, content.dump());
  }
  std::string error_for(const json& content) const {
    try {
      read_squad(file(content), true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  QuestionExamples examples(const json& content, std::int64_t length = 40, std::int64_t overlap = 4) const {
    return {{.kind = TaskKind::question_answering, .overlap = overlap},
            {{"t", file(content)}},
            tokenizer(),
            true,
            length};
  }
  static const Tokenizer& tokenizer() {
    static const Tokenizer made = small_tokenizer();
    return made;
  }
  // Values of all tokens, 0 but where a sequence's position is the first or the last of an answer.
  static std::vector<double> values(
      const QuestionExamples& read,
      const std::vector<std::tuple<std::int64_t, std::int64_t, int, double>>& set) {
    std::vector<double> all(static_cast<std::size_t>(2 * read.positions()));
    for (const auto& [sequence, position, which, value] : set)
      all[static_cast<std::size_t>(2 * (read.first_position(sequence) + position) + which)] = value;
    return all;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Squad, CountsPositionsInCharacters) {
  const SquadFile read = read_squad(file(file_of("Ünï — total", {question("a", "total", 6)})), true);
  ASSERT_EQ(read.questions.size(), 1U);
  EXPECT_EQ(read.questions[0].answers[0].begin, 10);
  EXPECT_EQ(read.contexts[0].substr(10), "total");
}

TEST_F(Squad, RefusesWhatIsMalformedByItsPlace) {
  EXPECT_THAT(error_for(json::array()), HasSubstr("has no data"));
  try {
    read_squad(folder_.write("empty.json", "\n"), true);
    ADD_FAILURE() << "an empty file was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is empty; give a file of questions"));
  }
  EXPECT_THAT(error_for({{"data", {{{"title", "x"}}}}}), HasSubstr("data[0] has no paragraphs"));
  EXPECT_THAT(error_for(file_of("text", {})), HasSubstr("holds no question"));
  EXPECT_THAT(error_for(file_of("text", {question("a", "text", 1)})),
              HasSubstr("data[0].paragraphs[0].qas[0].answers[0] is 'text', which is not at character"));
  EXPECT_THAT(error_for(file_of("text", {question("a", "text", 0), question("a", "text", 0)})),
              HasSubstr("has the id a of another question"));
  json impossible = question("a", "text", 0);
  impossible["is_impossible"] = true;
  EXPECT_THAT(error_for(file_of("text", {impossible})), HasSubstr("is_impossible, but has answers"));
  json none = question("a", "text", 0);
  none.erase("answers");
  EXPECT_THAT(error_for(file_of("text", {none})), HasSubstr("has no answers; to learn or score it"));
  none["is_impossible"] = "true";
  EXPECT_THAT(error_for(file_of("text", {question("b", "text", 0), none})), HasSubstr("has no answers"));
  none["answers"] = json::array();
  none["is_impossible"] = false;
  EXPECT_THAT(error_for(file_of("text", {none})), HasSubstr("has no answer, but is_impossible is false"));
  none["is_impossible"] = "true";
  EXPECT_THAT(error_for(file_of("text", {none})), HasSubstr("is_impossible is neither true nor false"));
}

// Questions without an answer are an error until the task says that there may be some.
TEST_F(Squad, QuestionsMayHaveNoAnswer) {
  json none = question("b", "", 0);
  none["answers"] = json::array();
  none["is_impossible"] = true;
  none["plausible_answers"] = {{{"text", "index"}, {"answer_start", 6}}};
  const json content = file_of("value index total", {question("a", "index", 6), none});
  EXPECT_EQ(read_squad(file(content), true).unanswerable(), 1);
  EXPECT_TRUE(read_squad(file(content), true).impossible);
  EXPECT_THROW(examples(content), UsageError);
  const auto read_with = [&](double threshold) {
    return QuestionExamples({.kind = TaskKind::question_answering,
                             .overlap = 4,
                             .unanswerable = true,
                             .no_answer_threshold = threshold},
                            {{"t", file(content)}}, tokenizer(), true, 40);
  };
  const QuestionExamples read = read_with(1);
  Sample sample;
  read.read(1, false, sample);
  EXPECT_THAT(sample.targets.ids, ElementsAre(0, 0));
  read.read(0, false, sample);
  const auto [first, last] = std::pair(sample.targets.ids[0], sample.targets.ids[1]);
  // Of the first the span is better by 6; of the second no answer is, by 2.
  const std::vector<double> found = values(
      read, {{0, first, 0, 4}, {0, last, 1, 4}, {0, 0, 0, 2}, {1, 0, 0, 1}, {1, 0, 1, 3}, {1, first, 0, 2}});
  EXPECT_EQ(json::parse(read.predictions(found, AnnotationFormat::json)), json({{"a", "index"}, {"b", ""}}));
  const std::string lines = read.predictions(found, AnnotationFormat::lines_of_json);
  EXPECT_THAT(lines, HasSubstr(R"("answer":"index","answer_start":6,"score":8.0,"no_answer":-6.0})"));
  EXPECT_THAT(lines, HasSubstr(R"("answer":"","answer_start":null,"score":2.0,"no_answer":2.0})"));
  const TaskScores scores = read.scores(found);
  EXPECT_EQ(scores.exact_match, 1);
  ASSERT_TRUE(scores.unanswerable);
  EXPECT_EQ(scores.unanswerable->questions, 1);
  EXPECT_EQ(scores.unanswerable->recognised, 1);
  EXPECT_EQ(scores.unanswerable->best_threshold, -2);  // between -6 and 2
  EXPECT_THAT(describe(scores), HasSubstr("1 without: 100.00 %"));
  // Above the threshold of 1 there is none; with a threshold of 2 the span is given.
  EXPECT_EQ(read_with(2).scores(found).exact_match, 0.5);
  EXPECT_EQ(read_with(-7).scores(found).exact_match, 0.5);
}

// No answer has the least score of all windows, since one window that has the answer is enough.
TEST_F(Squad, NoAnswerIsScoredOverAllWindows) {
  std::string context;
  for (int i = 0; i < 30; ++i) context += "value index ";
  json none = question("a", "", 0);
  none["answers"] = json::array();
  const QuestionExamples read({.kind = TaskKind::question_answering, .overlap = 6, .unanswerable = true},
                              {{"t", file(file_of(context, {none}))}}, tokenizer(), true, 24);
  ASSERT_GT(read.sequences(), 3);
  std::vector<std::tuple<std::int64_t, std::int64_t, int, double>> set;
  for (std::int64_t i = 0; i < read.sequences(); ++i) set.emplace_back(i, 0, 0, 9 + i);
  EXPECT_THAT(read.predictions(values(read, set), AnnotationFormat::lines_of_json),
              HasSubstr("\"no_answer\":9.0"));
  // Of one window, not of both ends apart.
  set.emplace_back(read.sequences() - 1, 0, 1, -10);
  EXPECT_THAT(read.predictions(values(read, set), AnnotationFormat::lines_of_json),
              HasSubstr(fmt::format("\"no_answer\":{}.0", 9 + read.sequences() - 1 - 10)));
  set.emplace_back(read.sequences() - 1, 0, 1, -30);
  EXPECT_EQ(json::parse(read.predictions(values(read, set), AnnotationFormat::json))["a"]
                .get<std::string>()
                .empty(),
            false);
}

TEST_F(Squad, KnowsItsFiles) {
  EXPECT_TRUE(is_squad_file(file(file_of("text", {question("a", "text", 0)}))));
  EXPECT_FALSE(is_squad_file(file(file_of("text", {}), "t.jsonl")));
  EXPECT_FALSE(is_squad_file(file({{"text", "a"}, {"label", "b"}})));
}

// The targets are the tokens of the answer.
TEST_F(Squad, MarksTheTokensOfTheAnswer) {
  const std::string context = "value = other_total(index) # node";
  const QuestionExamples read = examples(file_of(context, {question("a", "other_total", 8)}));
  ASSERT_EQ(read.sequences(), 1);
  Sample sample;
  read.read(0, false, sample);
  ASSERT_EQ(sample.targets.ids.size(), 2U);
  EXPECT_EQ(sample.targets.positions, sample.targets.ids);
  const auto [first, last] = std::pair(sample.targets.ids[0], sample.targets.ids[1]);
  const std::string found = tokenizer().decode(std::span(sample.ids).subspan(first, last - first + 1));
  EXPECT_THAT(found, HasSubstr("other_total"));
  EXPECT_LE(found.size(), std::string(" other_total(").size());
  EXPECT_EQ(sample.type_ids[0], 0);
  EXPECT_EQ(sample.type_ids[first], 1);
  EXPECT_EQ(std::ranges::count(sample.ids, tokenizer().special().separator), 2);
  // Asked, it gives every token of the sequence.
  read.read(0, true, sample);
  EXPECT_EQ(std::ssize(sample.targets.positions), read.length(0));
}

// Every token of the text is in a window; those without the whole answer point at [CLS].
TEST_F(Squad, ReadsLongTextsInWindows) {
  std::string context;
  for (int i = 0; i < 30; ++i) context += "value index ";
  const auto begin = static_cast<int>(context.size());
  context += "total";
  const QuestionExamples read = examples(file_of(context, {question("a", "total", begin)}), 24, 6);
  ASSERT_GT(read.sequences(), 3);
  EXPECT_THAT(read.reports()[0], HasSubstr("the texts of 1 are longer than 24 tokens with their question"));
  std::int64_t with_answer = 0;
  std::vector<std::int32_t> last_ids;
  for (std::int64_t i = 0; i < read.sequences(); ++i) {
    Sample sample;
    read.read(i, false, sample);
    EXPECT_LE(std::ssize(sample.ids), 24);
    const auto start = std::ranges::find(sample.type_ids, 1) - sample.type_ids.begin();
    std::vector<std::int32_t> ids(sample.ids.begin() + start, sample.ids.end() - 1);
    if (i > 0) {
      EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 6, last_ids.end() - 6)) << "they share six tokens";
    }
    last_ids = ids;
    if (sample.targets.ids[0] > 0) {
      ++with_answer;
      EXPECT_GE(sample.targets.ids[0], start);
    } else {
      EXPECT_EQ(sample.targets.ids[1], 0);
    }
  }
  EXPECT_EQ(with_answer, 1);
}

TEST_F(Squad, AnswersWithTheBestSpanOfAllWindows) {
  std::string context;
  for (int i = 0; i < 30; ++i) context += "value index ";
  context += "total";
  const QuestionExamples read =
      examples(file_of(context, {question("a", "total", static_cast<int>(context.size()) - 5)}), 24, 6);
  const std::int64_t last = read.sequences() - 1, end = read.length(last) - 2;
  // A better sum that ends before it begins, or within the question, is none.
  const std::vector<double> found = values(read, {{last, end, 0, 3},
                                                  {last, end, 1, 4},
                                                  {0, 1, 0, 9},
                                                  {0, 1, 1, 9},
                                                  {last, end - 3, 1, 20},
                                                  {0, 6, 0, 2}});
  EXPECT_THAT(read.predictions(found, AnnotationFormat::json), HasSubstr("\"a\": "));
  const TaskScores scores = read.scores(found);
  EXPECT_EQ(scores.examples, 1);
  EXPECT_LE(scores.exact_match, scores.f1);
  EXPECT_GT(scores.loss, 0);
  const std::vector<double> right = values(read, {{last, end, 0, 3}, {last, end, 1, 4}});
  EXPECT_EQ(json::parse(read.predictions(right, AnnotationFormat::json)), json({{"a", "total"}}));
  EXPECT_EQ(read.scores(right).exact_match, 1);
  EXPECT_THAT(read.predictions(right, AnnotationFormat::lines_of_json),
              HasSubstr(R"("answer":"total","answer_start":360,"score":7.0})"));
}

// The loss of training: the mean over the windows of the nats of both ends.
TEST_F(Squad, LossIsThatOfTheTargets) {
  const QuestionExamples read = examples(file_of("value index total", {question("a", "index", 6)}));
  Sample sample;
  read.read(0, false, sample);
  const auto tokens = static_cast<double>(read.length(0));
  EXPECT_NEAR(read.scores(values(read, {})).loss, std::log(tokens), 1e-12);
  const std::vector<double> sure =
      values(read, {{0, sample.targets.ids[0], 0, 50}, {0, sample.targets.ids[1], 1, 50}});
  EXPECT_NEAR(read.scores(sure).loss, 0, 1e-12);
}

// Pieces know their place, whatever the tokenizer does to the text.
TEST(LocatedPieces, CoverTheText) {
  const Tokenizer restoring = small_tokenizer();
  const std::string text = "def value_index(x):\n\treturn  total — é";
  std::string all;
  for (const LocatedPiece& piece : located_pieces(restoring, text))
    all += text.substr(piece.begin, piece.end - piece.begin);
  EXPECT_EQ(all, text);
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nanna\ncat\n##s\n.\n(\ne\n";
  const test::TemporaryFolder folder;
  const Tokenizer words = Tokenizer::load(folder.write("vocab.txt", vocabulary), LetterCase::lowered);
  const std::string given = "Anna  (Cats). É";
  std::vector<std::string> places;
  const std::vector<LocatedPiece> pieces = located_pieces(words, given);
  for (const LocatedPiece& piece : pieces)
    places.push_back(given.substr(piece.begin, piece.end - piece.begin));
  EXPECT_THAT(places, ElementsAre("Anna", "(", "Cats", "Cats", ")", ".", "É"));
  std::vector<std::int32_t> ids;
  for (const LocatedPiece& piece : pieces) ids.push_back(piece.id);
  EXPECT_EQ(ids, words.encode(given));
}

}  // namespace
}  // namespace comera::data
