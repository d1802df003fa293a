#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "data/batching/loader.h"
#include "data/corpus/build_shards.h"
#include "data/masking/masking.h"
#include "data/tokenizers/text/words.h"
#include "kernels/core/check.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_view_literals;

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer = small_tokenizer();
  return tokenizer;
}

std::shared_ptr<const WordTable> words() {
  static const auto table = std::make_shared<const WordTable>(tokenizer());
  return table;
}

// The words of ids that spell ASCII, besides special pieces, told from the text alone: pieces that touch with
// letters, digits or underscores, up to 16 of them.
std::vector<std::vector<int>> words_of(const std::vector<std::int32_t>& ids) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::vector<std::vector<int>> found;
  bool open = false;  // whether a word may go on
  for (int i = 0; i < static_cast<int>(ids.size()); ++i) {
    const std::string text = tokenizer().special().contains(ids[i]) ? "" : tokenizer().text(ids[i]).bytes;
    if (!text.empty() && !(open && is_word(text.front()) && found.back().size() < 16)) found.emplace_back();
    if (!text.empty()) found.back().push_back(i);
    open = !text.empty() && is_word(text.back());
  }
  return found;
}

// The words of a text as the table joins its pieces.
std::vector<std::string> word_texts(const std::string& text) {
  const auto ids = tokenizer().encode(text);
  std::vector<std::string> found;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || !words()->joins(ids[i - 1], ids[i])) found.emplace_back();
    found.back() += tokenizer().text(ids[i]).bytes;
  }
  for (std::string& word : found) word.erase(0, word.find_first_not_of(' '));
  std::erase(found, "");
  return found;
}

TEST(WordTable, AnIdentifierIsOneWordHoweverManyPiecesItHas) {
  EXPECT_THAT(word_texts("def zqx_long_name2 = self.count"),
              ElementsAre("def", "zqx_long_name2", "=", "self", ".", "count"));
  EXPECT_GT(tokenizer().encode("zqx_long_name2").size(), 4u) << "the test needs several pieces";
  EXPECT_THAT(word_texts("value\tvalue\nvalue"), ElementsAre("value", "\t", "value", "\n", "value"));
  EXPECT_THAT(word_texts("x=-1"), ElementsAre("x", "=", "-", "1"));
}

TEST(WordTable, CharactersWithoutPiecesStayWhole) {
  EXPECT_GT(tokenizer().encode("ö").size(), 1u) << "the test needs bytes";
  EXPECT_THAT(word_texts("größe2 x"), ElementsAre("größe2", "x"));
  EXPECT_THAT(word_texts("漢字 x"), ElementsAre("漢", "字", "x"));
  EXPECT_THAT(word_texts("x → y"), ElementsAre("x", "→", "y"));
}

TEST(WordTable, WordCharactersOfManyScripts) {
  // Arabic, Devanagari, Greek, Armenian, Ethiopic and Hebrew punctuation; spaces, signs, scripts without
  // spaces.
  for (const char32_t c :
       U"\u060c\u061f\u0964\u037e\u0589\u1362\u05be\u00a0\u1680\u200b«×…→€、。！漢かカꀀ"sv) {
    EXPECT_FALSE(is_word_character(c)) << "U+" << std::hex << static_cast<std::uint32_t>(c);
  }
  // Latin, its extensions D and E, Cyrillic and its extension B, Arabic, Devanagari with a mark, Hangul.
  for (const char32_t c : U"zß\ua73b\ua7ff\uab30\uab65жꙀꚝعकि٣한ᎠⲀ_9"sv) {
    EXPECT_TRUE(is_word_character(c)) << "U+" << std::hex << static_cast<std::uint32_t>(c);
  }
}

TEST(WordTable, SpecialPiecesAreInNoWord) {
  const SpecialIds& ids_of_special = tokenizer().special();
  const std::int32_t value = tokenizer().encode("value").back();
  for (const auto id : {ids_of_special.pad, ids_of_special.unknown, ids_of_special.cls,
                        ids_of_special.separator, ids_of_special.mask}) {
    EXPECT_FALSE(words()->joins(id, value));
    EXPECT_FALSE(words()->joins(value, id));
  }
  EXPECT_TRUE(words()->joins(value, value));
}

std::vector<std::int32_t> sample_of(int number) {
  const SpecialIds& ids_of_special = tokenizer().special();
  std::vector<std::int32_t> ids = {ids_of_special.cls};
  static Encoder encoder(tokenizer());
  std::vector<std::int32_t> tokens;
  encoder.encode(SmallCorpus::text(number), tokens);
  tokens.resize(std::min<std::size_t>(tokens.size(), 126));
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  ids.push_back(ids_of_special.separator);
  return ids;
}

Masking masking_with(MaskingOptions options) {
  options.words = words();
  return {options, tokenizer().vocabulary(), tokenizer().special()};
}

TEST(WholeWords, AreMaskedTogetherAndInTheRightProportion) {
  for (const double probability : {0.15, 0.4}) {
    const Masking masking = masking_with({.probability = probability});
    double eligible = 0, targets = 0, masked = 0, kept = 0, several = 0;
    for (int sample = 0; sample < 3000; ++sample) {
      const auto original = sample_of(9 * sample + 5);  // the longer ones
      auto ids = original;
      Targets found;
      masking.apply({1, 0, sample}, ids, found);
      const std::set<int> chosen(found.positions.begin(), found.positions.end());
      ASSERT_EQ(chosen.size(), found.ids.size());
      for (const auto& word : words_of(original)) {
        std::size_t count = 0;
        for (const int i : word) count += chosen.count(i);
        ASSERT_TRUE(count == 0 || count == word.size()) << "word of " << word.size();
        several += count > 1 ? static_cast<double>(count) : 0;
        eligible += static_cast<double>(word.size());
      }
      for (std::size_t i = 0; i < found.ids.size(); ++i) {
        const auto at = found.positions[i];
        EXPECT_TRUE(i == 0 || at > found.positions[i - 1]);
        ASSERT_EQ(found.ids[i], original[at]);
        masked += ids[at] == tokenizer().special().mask;
        kept += ids[at] == original[at];
      }
      targets += static_cast<double>(found.ids.size());
    }
    EXPECT_GT(several / targets, 0.1) << "the test needs words of several pieces";
    EXPECT_NEAR(targets / eligible, probability, 0.01);
    EXPECT_NEAR(masked / targets, 0.8, 0.01);
    EXPECT_NEAR(kept / targets, 0.1, 0.01);
  }
}

TEST(WholeWords, AWordsDrawDependsOnItsPlaceAlone) {
  const Masking masking = masking_with({.probability = 0.3});
  const auto first = sample_of(5);
  auto other = first;
  const auto groups = words_of(first);
  // Another piece in place of each word of the second half; bounds of words stay where they were.
  const std::int32_t bracket = tokenizer().encode("(").back();
  const auto half = static_cast<std::size_t>(groups[groups.size() / 2][0]);
  for (std::size_t i = half; i + 1 < other.size(); ++i) other[i] = bracket;
  auto ids = first, other_ids = other;
  Targets targets, other_targets;
  masking.apply({7, 3, 1}, ids, targets);
  masking.apply({7, 3, 1}, other_ids, other_targets);
  const auto before = [&](const std::vector<std::int32_t>& positions) {
    std::vector<std::int32_t> kept = positions;
    std::erase_if(kept, [&](auto at) { return static_cast<std::size_t>(at) >= half; });
    return kept;
  };
  EXPECT_FALSE(before(targets.positions).empty());
  EXPECT_EQ(before(targets.positions), before(other_targets.positions));
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(half), other_ids.begin()));
}

TEST(WholeWords, ALimitTakesWholeWords) {
  const SpecialIds& ids_of_special = tokenizer().special();
  const auto piece = tokenizer().encode("value").back();
  const auto bracket = tokenizer().encode("(").back();
  Targets targets;
  // Words of 3, 1 and 2 pieces.
  std::vector<std::int32_t> ids = {ids_of_special.cls,      piece, piece, piece, bracket, piece, piece,
                                   ids_of_special.separator};
  auto masked = ids;
  masking_with({.probability = 1, .most_targets = 5}).apply({}, masked, targets);
  EXPECT_THAT(targets.positions, ElementsAre(1, 2, 3, 4));
  masked = ids;
  masking_with({.probability = 1, .most_targets = 2}).apply({}, masked, targets);
  EXPECT_EQ(targets.positions.size(), 2u) << "a sample has a target at least";
  masked = ids;
  masking_with({.probability = 1e-9}).apply({}, masked, targets);
  EXPECT_FALSE(targets.positions.empty());
  // A run without end is cut.
  ids.assign(100, piece);
  std::set<std::size_t> sizes;
  for (int sample = 0; sample < 50; ++sample) {
    masked = ids;
    masking_with({.probability = 1e-9}).apply({0, 0, sample}, masked, targets);
    sizes.insert(targets.positions.size());
  }
  EXPECT_EQ(*sizes.rbegin(), static_cast<std::size_t>(WordTable::longest));
}

TEST(WholeWords, RefusesWhatItCannotDo) {
  EXPECT_THAT(test::error_of([] {
                MaskingOptions options{.words = words()};
                Masking masking(options, tokenizer().vocabulary() + 1, tokenizer().special());
              }),
              HasSubstr("whole words are known of"));
  EXPECT_THAT(test::error_of([] { masking_with({}).count_targets({}, 10); }), HasSubstr("cannot be counted"));
}

class WholeWordLoader : public ::testing::Test {
 protected:
  WholeWordLoader() {
    SmallCorpus corpus(150);
    BuildOptions build;
    build.output = folder_.path();
    build.held_out = 0;
    build_shards(corpus, tokenizer(), build);
    shards_ = std::make_unique<ShardSet>(folder_.path(), "train");
    options_.capacity = {.tokens = 512, .sequences = 20, .longest = 64, .masked = 128, .unique_ids = 512};
    options_.masking.words = words();
    options_.seed = 11;
  }
  static void expect_equal(const Batch& a, const Batch& b) {
    EXPECT_THAT(a.token_ids, testing::ElementsAreArray(b.token_ids));
    EXPECT_THAT(a.sequence_offsets, testing::ElementsAreArray(b.sequence_offsets));
    EXPECT_THAT(a.masked_positions, testing::ElementsAreArray(b.masked_positions));
    EXPECT_THAT(a.masked_targets, testing::ElementsAreArray(b.masked_targets));
    EXPECT_EQ(a.samples, b.samples);
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<ShardSet> shards_;
  LoaderOptions options_;
};

TEST_F(WholeWordLoader, ResumesExactlyAnywhereAndPrefetchingChangesNothing) {
  options_.micro_batches_per_step = 3;
  Loader whole(*shards_, options_);
  options_.prefetch = 0;
  std::vector<Batch> batches;
  std::vector<LoaderPosition> positions;
  while (whole.epoch() < 2) {
    positions.push_back(whole.position());
    batches.push_back(whole.next());
  }
  ASSERT_GT(batches.size(), 40u);
  for (std::size_t at = 0; at < positions.size(); at += 5) {
    Loader resumed(*shards_, options_);
    resumed.seek(positions[at]);
    for (std::size_t i = at; i < std::min(at + 8, batches.size()); ++i)
      expect_equal(resumed.next(), batches[i]);
  }
}

TEST_F(WholeWordLoader, RanksShareTheSameGlobalBatches) {
  options_.micro_batches_per_step = 3;
  Loader alone(*shards_, options_);
  options_.world_size = 2;
  Loader zero(*shards_, options_);
  options_.process = 1;
  Loader one(*shards_, options_);
  for (int step = 0; step < 20; ++step) {
    for (int p = 0; p < 3; ++p) expect_equal((p % 2 == 0 ? zero : one).next(), alone.next());
    EXPECT_EQ(zero.position(), alone.position());
    EXPECT_EQ(one.position(), alone.position());
  }
}

TEST_F(WholeWordLoader, CountsThePacksOfAnEpochAlsoWhilePrefetching) {
  for (const std::int64_t masked : {128, 40})  // room for all targets, and too little of it
    for (const std::int64_t prefetch : {0, 3}) {
      options_.capacity.masked = masked;
      options_.prefetch = prefetch;
      options_.one_pass = true;
      Loader undisturbed(*shards_, options_), loader(*shards_, options_);
      std::int64_t micro_batches = 0, expected = loader.count_micro_batches_per_epoch();
      while (const Batch* batch = undisturbed.try_next()) {
        if (micro_batches % 7 == 3) {
          EXPECT_EQ(loader.count_micro_batches_per_epoch(), expected);
        }
        expect_equal(loader.next(), *batch);
        EXPECT_LE(batch->masked, masked);
        ++micro_batches;
      }
      EXPECT_EQ(loader.count_micro_batches_per_epoch(), expected);
      EXPECT_EQ(loader.try_next(), nullptr);
      EXPECT_EQ(micro_batches, expected) << masked << " " << prefetch;
    }
}

}  // namespace
}  // namespace comera::data
