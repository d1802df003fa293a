// Words with labels in CoNLL's columns.
#include "data/annotations/conll_reader.h"

#include <gmock/gmock.h>

#include "data/annotations/token_examples.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* two_sentences =
    "-DOCSTART- -X- -X- O\n\nAnna NNP B-NP B-PER\nsleeps VBZ B-VP O\n\n \nin IN B-PP O\nParis NNP B-NP "
    "B-LOC\n";

class Conll : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& text, const std::string& name = "t.conll") const {
    return folder_.write(name, text);
  }
  static std::vector<std::string> labels_of(const std::filesystem::path& file, const Task& task = {}) {
    ConllReader reader(file, task, true);
    std::vector<std::string> labels;
    for (std::vector<ConllWord> sentence; reader.next(sentence); labels.emplace_back("|"))
      for (const ConllWord& word : sentence) labels.push_back(word.text + "/" + word.label);
    return labels;
  }
  std::string error_for(const std::string& text, const Task& task = {}) const {
    try {
      labels_of(file(text), task);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  TokenExamples examples(const std::string& text, std::int64_t length = 32,
                         std::vector<std::string> labels = {"B-LOC", "B-PER", "O"},
                         bool labelled = true) const {
    const Task task{.labels = std::move(labels)};
    return {task, {{"t", file(text)}}, tokenizer(), labelled, length};
  }
  static const Tokenizer& tokenizer() {
    static const Tokenizer made = small_tokenizer();
    return made;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Conll, ReadsSentencesOfColumns) {
  EXPECT_THAT(labels_of(file(two_sentences)),
              ElementsAre("Anna/B-PER", "sleeps/O", "|", "in/O", "Paris/B-LOC", "|"));
  EXPECT_THAT(labels_of(file(two_sentences), {.text = {"2"}, .label = "3"}),
              ElementsAre("NNP/B-NP", "VBZ/B-VP", "|", "IN/B-PP", "NNP/B-NP", "|"));
  EXPECT_THAT(labels_of(file("New York\tB-LOC\r\nnow\tO")), ElementsAre("New York/B-LOC", "now/O", "|"))
      << "tabs keep spaces";
  EXPECT_THAT(labels_of(file("a  \t O\n")), ElementsAre("a/O", "|"));
}

TEST_F(Conll, RefusesWhatIsMalformedByItsLine) {
  EXPECT_THAT(error_for("a O\nb\n"), HasSubstr("line 2 has 1 columns, but line 1 has 2"));
  EXPECT_THAT(error_for("a\nb\n"), HasSubstr("line 1 has one column, so there are no labels"));
  EXPECT_THAT(error_for("a\tO\nb\t\n"), HasSubstr("line 2 has no label"));
  EXPECT_THAT(error_for("\n\n"), HasSubstr("holds no word"));
  EXPECT_THAT(error_for("a O\nb\xff O\n"), HasSubstr("line 2 is not UTF-8"));
  EXPECT_THAT(error_for("a O\n", {.label = "3"}), HasSubstr("has 2 columns, but task.label is 3"));
  EXPECT_THAT(error_for("a O\n", {.label = "ner"}), HasSubstr("have no names but numbers"));
}

TEST_F(Conll, KnowsItsFiles) {
  EXPECT_TRUE(is_conll_file(file("anything", "a.conll")));
  EXPECT_TRUE(is_conll_file(file(two_sentences, "eng.testa")));
  EXPECT_TRUE(is_conll_file(file(two_sentences, "train.txt")));
  EXPECT_FALSE(is_conll_file(file("A text of words.\n\nAnother one.\n", "train.txt")));
  EXPECT_FALSE(is_conll_file(file("text\tlabel\na\tO\n", "train.tsv")));
  EXPECT_FALSE(is_conll_file(file(two_sentences, "t.csv")));
  EXPECT_FALSE(is_conll_file(folder_ / "missing.txt"));
}

TEST_F(Conll, LabelsTheFirstPieceOfAWord) {
  const TokenExamples read = examples("index_result B-PER\nvalue O\n");
  EXPECT_EQ(read.count(), 1);
  EXPECT_EQ(read.sequences(), 1);
  EXPECT_EQ(read.positions(), 2);
  Sample sample;
  read.read(0, false, sample);
  EXPECT_EQ(sample.ids.front(), tokenizer().special().cls);
  EXPECT_EQ(sample.ids.back(), tokenizer().special().separator);
  EXPECT_THAT(sample.targets.ids, ElementsAre(1, 2));
  ASSERT_EQ(sample.targets.positions.size(), 2U);
  EXPECT_EQ(sample.targets.positions[0], 1);
  // All pieces before the second word's are the first's.
  const auto at = sample.targets.positions[1];
  const std::string before = tokenizer().decode(std::span(sample.ids).subspan(1, at - 1));
  EXPECT_EQ(before.substr(0, 12), "index_result");
  EXPECT_EQ(before.find("value"), before.npos);
  EXPECT_THAT(tokenizer().decode(std::span(sample.ids).subspan(at)), HasSubstr("value"));
}

// Nothing is left out: every word is in exactly one part, between [CLS] and [SEP].
TEST_F(Conll, DividesLongSentencesBetweenWords) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "value O\n";
  const std::int64_t length = 12;
  const TokenExamples read = examples(text, length);
  EXPECT_EQ(read.count(), 1);
  EXPECT_GT(read.sequences(), 3);
  EXPECT_EQ(read.positions(), 40);
  std::int64_t targets = 0, shortest = length;
  for (std::int64_t i = 0; i < read.sequences(); ++i) {
    Sample sample;
    read.read(i, false, sample);
    EXPECT_EQ(std::ssize(sample.ids), read.length(i));
    EXPECT_LE(read.length(i), length);
    shortest = std::min(shortest, read.length(i));
    targets += std::ssize(sample.targets.ids);
    for (const std::int32_t position : sample.targets.positions) {
      EXPECT_GT(position, 0);
      EXPECT_LT(position + 1, read.length(i));
    }
  }
  EXPECT_EQ(targets, 40);
  EXPECT_GT(shortest, length / 2) << "the parts are about equal";
  ASSERT_EQ(read.reports().size(), 1U);
  EXPECT_THAT(read.reports()[0], HasSubstr("1 longer than 12 tokens are read in"));
  EXPECT_THAT(examples("index_result_value_other_node_total O\na O\n", 4).reports()[0],
              HasSubstr("of 1 longer words the first 2 pieces are read"));
}

// Labels that the model does not know are errors, but in no loss.
TEST_F(Conll, CountsLabelsThatAreNoClasses) {
  const TokenExamples read = examples("a B-MISC\nb B-PER\nc O\n");
  EXPECT_THAT(read.reports()[0], HasSubstr("1 words have labels that are no classes of the model (B-MISC)"));
  Sample sample;
  read.read(0, false, sample);
  EXPECT_THAT(sample.targets.ids, ElementsAre(1, 2));
  read.read(0, true, sample);
  EXPECT_EQ(sample.targets.ids.size(), 3U);
  std::vector<double> values(9);
  for (int word = 0; word < 3; ++word) {
    std::vector<double> logits = {0, 0, 0};
    logits[word == 1 ? 1 : 2] = 3;
    read.keep(word, logits, values.data() + 3 * word);
  }
  const TaskScores scores = read.scores(values);
  EXPECT_NEAR(scores.accuracy, 2.0 / 3, 1e-12);
  EXPECT_NEAR(scores.loss, std::log(1 + 2 * std::exp(-3)), 1e-12);
  ASSERT_TRUE(scores.entities);
  EXPECT_EQ(scores.entities->entities, 2);
  EXPECT_EQ(scores.entities->precision, 1);
  EXPECT_EQ(scores.entities->recall, 0.5);
}

TEST_F(Conll, ScoresOnlyWordsWhereLabelsAreNoEntities) {
  const TokenExamples read = examples("a NOUN\nb VERB\n", 32, {"NOUN", "VERB"});
  const TaskScores scores = read.scores(std::vector<double>{0, 1, 0.1, 0, 1, 0.3});
  EXPECT_FALSE(scores.entities);
  EXPECT_EQ(scores.accuracy, 0.5);
  EXPECT_NEAR(scores.loss, 0.2, 1e-12);
}

TEST_F(Conll, WritesPredictionsBesideTheColumns) {
  const TokenExamples read = examples(two_sentences, 32, {"B-LOC", "B-PER", "O"}, false);
  const std::vector<double> values = {1, 0.9, 0, 2, 0.8, 0, 2, 0.7, 0, 0, 0.6, 0};
  EXPECT_EQ(read.predictions(values, AnnotationFormat::columns),
            "-DOCSTART-\t-X-\t-X-\tO\tO\n\nAnna\tNNP\tB-NP\tB-PER\tB-PER\nsleeps\tVBZ\tB-VP\tO\tO\n\n"
            "in\tIN\tB-PP\tO\tO\nParis\tNNP\tB-NP\tB-LOC\tB-LOC\n\n");
  EXPECT_THAT(
      read.predictions(values, AnnotationFormat::lines_of_json),
      HasSubstr(R"({"line":7,"tokens":["in","Paris"],"probabilities":[0.7,0.6],"labels":["O","B-LOC"],)"
                R"("entities":[{"type":"LOC","first":1,"last":1}]})"));
}

}  // namespace
}  // namespace comera::data
