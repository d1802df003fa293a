#include "data/tokenizers/tokenizer_training.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "data/tokenizers/models/sentencepiece_proto.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/training_lines.h"
#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Texts as they are.
class Texts : public DocumentSource {
 public:
  explicit Texts(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  bool next(Document& document) override {
    if (at_ == texts_.size()) return false;
    document = {.text = texts_[at_], .name = "", .language = "", .hash = storage::hash128(texts_[at_])};
    ++at_;
    return true;
  }
  CorpusCounts counts() const override { return {}; }

 private:
  std::vector<std::string> texts_;
  std::size_t at_ = 0;
};

TEST(TokenizerTraining, LongLinesAreLearnedFrom) {
  std::string line;
  while (line.size() < 50000) line += " information about everything";
  for (const TokenizerModel model : {TokenizerModel::bpe, TokenizerModel::unigram}) {
    Texts alone({line});
    TrainingCounts counts;
    const Tokenizer tokenizer =
        train_tokenizer(alone, {.model = model, .vocabulary = 400, .progress = {}}, counts);
    EXPECT_EQ(tokenizer.encode(" information").size(), 1u);
    EXPECT_EQ(counts.bytes, static_cast<std::int64_t>(line.size()));
    EXPECT_TRUE(counts.left_out.empty());
  }
}

TEST(TokenizerTraining, LinesAreCutAtSpacesOrBetweenCharacters) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> found;
    for (TrainingLines lines({{storage::hash128(text), text}}); !lines.done(); lines.Next())
      found.push_back(lines.value());
    return found;
  };
  const std::size_t longest = TrainingLines::longest_line;
  const std::string word(longest - 5, 'x'), rest(20, 'y');
  EXPECT_THAT(lines_of(word + "   " + rest + "\nz\n"), ElementsAre(word, "   " + rest, "z"));
  std::string characters, joined;
  while (characters.size() < 3 * longest) characters += "\u6f22";
  for (const std::string& line : lines_of(characters)) {
    EXPECT_TRUE(is_utf8(line));
    EXPECT_LE(line.size(), longest);
    joined += line;
  }
  EXPECT_EQ(joined, characters);
  EXPECT_THAT(lines_of("one\u2585two\u2581three\u2584\n\n\u2585\nfour"),
              ElementsAre("one", "two", "three\u2584", "four"));
  const std::string exact(longest, 'x');
  EXPECT_THAT(lines_of(exact + "\n" + exact), ElementsAre(exact, exact));
}

TEST(TokenizerTraining, ALineWithAReservedCharacterIsLearnedFrom) {
  std::string line;
  for (int i = 0; i < 50; ++i) line += "load \u2585\u2585 information ";
  Texts alone({line});
  EXPECT_EQ(train_tokenizer(alone, {.vocabulary = 400, .progress = {}}).encode(" information").size(), 1u);
}

TEST(TokenizerTraining, WhatIsNotLearnedFromIsCounted) {
  TrainingCounts counts;
  Texts sampled({"a short text", std::string(5000, 'x')});
  train_tokenizer(sampled, {.vocabulary = 320, .max_bytes = 5000, .progress = {}}, counts);
  EXPECT_EQ(counts.documents, 1);
  EXPECT_EQ(counts.left_out.at("beyond the sample").count, 1);
  EXPECT_EQ(counts.bytes + counts.left_out.at("beyond the sample").bytes, 5012);
  Texts all({"one word \u2585 and another word", "[CLS] and [MASK] and <0x0A>"});
  train_tokenizer(all, {.vocabulary = 320, .progress = {}}, counts);
  EXPECT_EQ(counts.documents, 2);
  EXPECT_EQ(counts.bytes, 26 + 10);
  EXPECT_EQ(counts.left_out.at("U+2581 or U+2585").bytes, 3);
  EXPECT_EQ(counts.left_out.at("names of special tokens such as [MASK]").count, 3);
  EXPECT_EQ(counts.left_out.at("names of special tokens such as [MASK]").bytes, 5 + 6 + 6);
  EXPECT_FALSE(counts.left_out.contains("beyond the sample"));
}

TEST(TokenizerTraining, WhatCannotBeTrainedOnIsSaidInOneSentence) {
  const auto refusal = [](std::vector<std::string> texts, const TokenizerOptions& options) {
    Texts source(std::move(texts));
    return test::error_of([&] { train_tokenizer(source, options); });
  };
  std::string characters;
  for (int i = 0; i < 500; ++i)
    characters += {'\xE4', static_cast<char>(0xB8 + i / 64), static_cast<char>(0x80 + i % 64)};
  for (const TokenizerModel model : {TokenizerModel::bpe, TokenizerModel::unigram}) {
    for (const char* nothing : {"\t\t\n\t", "\u2585\n", "\u2581\u2585", "[CLS]\n<0x41>"})
      EXPECT_THAT(refusal({nothing}, {.model = model, .progress = {}}),
                  HasSubstr("nothing to train on: the documents hold line ends"))
          << nothing;
    TokenizerOptions options{.model = model, .vocabulary = 400, .progress = {}};
    EXPECT_THAT(refusal({characters}, options),
                AllOf(HasSubstr("a vocabulary of 400 is too small for the 500 characters"),
                      HasSubstr("--vocabulary 763 or more"), testing::Not(HasSubstr(".cc"))));
    options.vocabulary = 763;
    EXPECT_EQ(test::error_of([&] {
                Texts source({characters});
                train_tokenizer(source, options);
                throw Error("trained");
              }),
              "trained");
    const std::string frequent = characters + std::string(40000, 'x');
    options.vocabulary = 400;
    EXPECT_THAT(refusal({frequent}, options),
                HasSubstr("or a --character-coverage below 0.9995, down to 0.98"));
    options.character_coverage = 0.98;
    EXPECT_EQ(test::error_of([&] {
                Texts source({frequent});
                train_tokenizer(source, options);
                throw Error("trained");
              }),
              "trained");
    options.character_coverage = 0;
    EXPECT_THAT(refusal({"text"}, options), HasSubstr("character coverage"));
  }
}

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

TEST(TokenizerTraining, PiecesAreNumberedByFrequency) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("for (int i_{} = 0; i < {}; ++i) sum += values[i] * weight;\n", i % 7, i * i);
  for (const TokenizerModel model : {TokenizerModel::bpe, TokenizerModel::unigram}) {
    Texts alone({text});
    const Tokenizer tokenizer = train_tokenizer(alone, {.model = model, .vocabulary = 400, .progress = {}});
    std::vector<std::int64_t> counts(static_cast<std::size_t>(tokenizer.vocabulary()));
    for (const std::int32_t id : tokenizer.encode(text)) ++counts[static_cast<std::size_t>(id)];
    constexpr int given = 263;  // special pieces, line end, tab, and bytes
    EXPECT_TRUE(std::ranges::is_sorted(counts.begin() + given, counts.end(), std::greater()));
    EXPECT_GT(counts[given], counts[given + 20]);
    EXPECT_EQ(tokenizer.piece(given - 1), "<0xFF>");

    // Other ids divide a text into the same pieces.
    std::vector<std::int64_t> turned(counts.size());
    for (std::size_t id = 0; id < turned.size(); ++id) turned[id] = static_cast<std::int64_t>(id);
    const Tokenizer other =
        Tokenizer::from_bytes(number_by_frequency(tokenizer.bytes(), turned), "the other one");
    EXPECT_EQ(other.piece(given), tokenizer.piece(tokenizer.vocabulary() - 1));
    EXPECT_EQ(other.special().mask, tokenizer.special().mask);
    for (const std::string& some :
         {text, std::string("\tweights_7 * (unseen \u00e9)\n  if"), std::string("[CLS]")})
      EXPECT_EQ(pieces_of(other, some), pieces_of(tokenizer, some));
  }
}

}  // namespace
}  // namespace comera::data
