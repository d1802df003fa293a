// Examples of contrastive learning as sequences, and who is whose negative.
#include <gmock/gmock.h>

#include "data/batching/loader.h"
#include "data/vectors/contrastive_samples.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Examples read(const std::string& rows, std::vector<std::string> text, const std::string& label = "",
              std::vector<std::string> labels = {}) {
  static const Tokenizer tokenizer = small_tokenizer();
  const test::TemporaryFolder folder;
  const Task task{.name = "pairs",
                  .kind = TaskKind::contrastive,
                  .text = std::move(text),
                  .label = label,
                  .labels = std::move(labels)};
  return Examples::read(task, {{"table", folder.write("t.tsv", rows)}}, tokenizer, !label.empty(), 64);
}

// The first micro-batch in the order of the table, of room for `room` examples.
Batch first_batch(const Examples& examples, std::int64_t texts, std::int64_t room, std::int64_t length = 16) {
  const std::int64_t sequences = std::max<std::int64_t>(texts, 2), documents = (sequences - 1) * room;
  LoaderOptions options;
  options.capacity = {.tokens = sequences * room * length,
                      .sequences = sequences * room,
                      .longest = length,
                      .unique_ids = 500,
                      .scores = documents};
  options.masking.probability = 0;
  options.one_pass = true;
  options.prefetch = 0;
  return Loader(std::make_unique<ContrastiveSamples>(examples, texts, length), options).next();
}

// The candidates of each example: '1' where a document may be wrong or is the example's own.
std::vector<std::string> candidates(const Batch& batch, std::int64_t documents) {
  std::vector<std::string> rows;
  for (std::int64_t e = 0; e < batch.examples; ++e) {
    std::string& row = rows.emplace_back();
    for (std::int64_t j = 0; j < documents; ++j)
      row += batch.scores[static_cast<std::size_t>(e * documents + j)] == 0 ? '1' : '0';
  }
  return rows;
}

TEST(ContrastiveSamples, DocumentsOfOthersAreNegativesUnlessTheyMayBeRight) {
  // Example 2 has the document of example 0, example 3 the query of example 1, and the document of 4 is the
  // query of 0.
  const Examples examples =
      read("a\tb\nq one\td one\nq two\td two\nq three\td one\nq two\td four\nq five\tq one\n", {"a", "b"});
  const Batch batch = first_batch(examples, 2, 6);
  ASSERT_EQ(batch.examples, 5);
  EXPECT_EQ(batch.sequences, 10);
  EXPECT_THAT(candidates(batch, 6), ElementsAre("110100", "111010", "011110", "101110", "111110"));
  EXPECT_THAT(std::vector(batch.labels.begin(), batch.labels.begin() + 5), ElementsAre(0, 1, 2, 3, 4));
}

TEST(ContrastiveSamples, HardNegativesFollowTheDocuments) {
  const Examples examples =
      read("a\tb\tc\nq one\td one\tn one\nq two\td two\td one\nq three\td three\tn one\n", {"a", "b", "c"});
  const Batch batch = first_batch(examples, 3, 3);
  ASSERT_EQ(batch.sequences, 9);
  // The hard negative of example 1 is the document of example 0.
  EXPECT_THAT(candidates(batch, 6), ElementsAre("111101", "111111", "111111"));
}

TEST(ContrastiveSamples, OneTextIsItsOwnDocument) {
  const Examples examples = read("a\none\ntwo\none\n", {"a"});
  const Batch batch = first_batch(examples, 1, 3);
  ASSERT_EQ(batch.sequences, 6);
  const auto sequence = [&](std::int64_t s) {
    return std::vector(batch.token_ids.begin() + batch.sequence_offsets[s],
                       batch.token_ids.begin() + batch.sequence_offsets[s + 1]);
  };
  EXPECT_EQ(sequence(0), sequence(1));
  EXPECT_NE(sequence(0), sequence(2));
  EXPECT_THAT(candidates(batch, 3), ElementsAre("110", "111", "011"));
}

// Each text is truncated by itself; texts that are equal then are one.
TEST(ContrastiveSamples, TextsAreTruncatedAlone) {
  const Examples examples =
      read("a\tb\nq\tone two three four five six\nr\tone two three four five seven\n", {"a", "b"});
  const ContrastiveSamples samples(examples, 2, 6);
  EXPECT_EQ(samples.truncated(), 2);
  const Batch batch = first_batch(examples, 2, 2, 6);
  EXPECT_EQ(batch.sequence_offsets[2] - batch.sequence_offsets[1], 6);
  EXPECT_THAT(candidates(batch, 2), ElementsAre("10", "01"));
}

TEST(ContrastiveSamples, RowsAreChosenByTheirLabelAndNeedAllTexts) {
  const Examples examples = read("a\tb\ty\none\ttwo\tentailment\nthree\tfour\tneutral\nfive\t\tentailment\n",
                                 {"a", "b"}, "y", {"entailment"});
  EXPECT_EQ(examples.count(), 1);
  EXPECT_THAT(examples.reports()[0],
              testing::AllOf(HasSubstr("other label ('neutral'): 1"), HasSubstr("no text: 1")));
}

TEST(SeparateTexts, AreTheTextsInOrder) {
  const Examples examples = read("a\tb\none\ttwo\nthree\tone\n", {"a", "b"});
  SeparateTexts texts(examples, 2, 16);
  ASSERT_EQ(texts.count(), 4);
  Sample sample, again;
  texts.read(0, sample);
  texts.read(3, again);
  EXPECT_EQ(sample.ids, again.ids);
  EXPECT_EQ(std::ssize(sample.ids), texts.length(0));
  EXPECT_THAT(text_identities(examples, 2, 16), ElementsAre(0, 1, 2, 0));
}

}  // namespace
}  // namespace comera::data
