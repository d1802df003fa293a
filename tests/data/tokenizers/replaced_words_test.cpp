// Texts of which some words are replaced by others of the vocabulary.
#include "data/masking/replaced_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;

// Ids 0 to 4 are special; words that stand for themselves are 5 to 9.
Tokenizer wordpiece(const std::string& pieces = "house\ntree\nunder\nthe\ngröße\n##s\nof\na\n42\nx86\n!\n") {
  const test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + pieces),
                         LetterCase::kept);
}

TEST(ReplacedWords, AreWholeWordsOfLetters) {
  const Tokenizer tokenizer = wordpiece();
  const ReplaceableWords words(tokenizer);
  EXPECT_EQ(words.count(), 5);
  const std::vector<std::int32_t> text = tokenizer.encode("house trees of a 42 x86 ! größe [MASK]");
  for (std::uint64_t key = 0; key < 50; ++key) {
    std::vector<std::int32_t> ids = text;
    ids.insert(ids.begin(), tokenizer.special().cls);
    const std::vector<std::int32_t> before = ids;
    EXPECT_EQ(words.count_in(ids), 2);
    words.replace(1, key, ids);
    ASSERT_EQ(ids.size(), before.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // Not "tree", which "##s" continues.
      const bool replaced = before[i] == 5 || before[i] == 9;
      EXPECT_EQ(ids[i] != before[i], replaced) << tokenizer.piece(before[i]);
      if (replaced) EXPECT_THAT(ids[i], testing::AllOf(testing::Ge(5), testing::Le(9)));
    }
    words.replace(0, key, ids = before);
    EXPECT_EQ(ids, before);
  }
}

// Within three deviations of the share, and of each other word.
TEST(ReplacedWords, AreDrawnAlike) {
  const ReplaceableWords words(wordpiece());
  constexpr int draws = 4000;
  constexpr double share = 0.3;
  std::map<std::int32_t, int> counts;
  for (std::uint64_t key = 0; key < draws / 10; ++key) {
    std::vector<std::int32_t> ids(10, 6);
    for (std::size_t i = 1; i < ids.size(); i += 2) ids[i] = 15;  // "!", which joins no word
    std::vector<std::int32_t> more = ids;
    words.replace(share, storage::mix64(2 * key), ids);
    words.replace(share, storage::mix64(2 * key + 1), more);
    for (std::size_t i = 0; i < ids.size(); i += 2) ++counts[ids[i]], ++counts[more[i]];
  }
  const auto near = [&](int count, double expected) {
    EXPECT_NEAR(count, draws * expected, 3 * std::sqrt(draws * expected * (1 - expected)));
  };
  near(counts[6], 1 - share);
  for (const std::int32_t other : {5, 7, 8, 9}) near(counts[other], share / 4);
}

class Numbered final : public SampleSource {
 public:
  std::int32_t vocabulary() const override { return 16; }
  const SpecialIds& special() const override { return special_; }
  std::int64_t count() const override { return 3; }
  std::vector<std::int32_t> lengths() const override { return {6, 7, 8}; }
  std::int64_t length(std::int64_t sample) const override { return 6 + sample; }
  void read(std::int64_t sample, Sample& to) override {
    to.ids.assign(6 + sample, 5);
    to.label = static_cast<std::int32_t>(sample);
  }

 private:
  SpecialIds special_;
};

TEST(ReplacedWords, FollowEachSample) {
  const auto words = std::make_shared<const ReplaceableWords>(wordpiece());
  WithReplacedWords samples(std::make_unique<Numbered>(), words, 0.9),
      again(std::make_unique<Numbered>(), words, 0.9);
  EXPECT_EQ(samples.count(), 6);
  EXPECT_THAT(samples.lengths(), ElementsAre(6, 6, 7, 7, 8, 8));
  std::vector<std::vector<std::int32_t>> changed;
  for (std::int64_t i = 0; i < 6; ++i) {
    Sample sample, same;
    samples.read(i, sample);
    EXPECT_EQ(std::ssize(sample.ids), samples.length(i));
    EXPECT_EQ(sample.label, i / 2);
    EXPECT_EQ(sample.ids != std::vector<std::int32_t>(6 + i / 2, 5), i % 2 == 1);
    again.begin_epoch(7, i);
    again.read(i, same);
    EXPECT_EQ(same.ids, sample.ids);
    if (i % 2 == 1) changed.emplace_back(sample.ids.begin(), sample.ids.begin() + 6);
  }
  EXPECT_NE(changed[0], changed[1]);
  EXPECT_NE(changed[1], changed[2]);
}

TEST(ReplacedWords, NeedAnotherWord) {
  const ReplaceableWords words(wordpiece("house\n42\nof\n"));
  std::vector<std::int32_t> ids(9, 5);
  EXPECT_EQ(words.count_in(ids), 0);
  words.replace(1, 7, ids);
  EXPECT_EQ(ids, std::vector<std::int32_t>(9, 5));
}

// Pieces of a byte-level vocabulary that begin a word have a space before them; one of them ends within a
// character.
TEST(ReplacedWords, BeginWithASpaceElsewhere) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", R"({
    "added_tokens": [{"id": 0, "content": "<pad>", "special": true}, {"id": 1, "content": "<unk>", "special": true},
      {"id": 2, "content": "<s>", "special": true}, {"id": 3, "content": "</s>", "special": true},
      {"id": 4, "content": "<mask>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "<mask>": 4, "Ġhouse": 5,
      "Ġtree": 6, "tree": 7, "Ġof": 8, "Ġ123": 9, "ĠíķľêµŃ": 10, "Ġíķľêµ": 11}, "merges": []}})"));
  const ReplaceableWords words(tokenizer);
  EXPECT_EQ(words.count(), 3);  // of Korean the whole piece alone
  EXPECT_EQ(words.count_in(std::vector<std::int32_t>{5, 6, 8, 9, 10, 11}), 3);
  EXPECT_EQ(words.count_in(std::vector<std::int32_t>{5, 7}), 0);  // "housetree"
}

}  // namespace
}  // namespace comera::data
