#include "data/tokenizers/hidden_piece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "small_corpus.h"

namespace comera::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HiddenPieceTest : public ::testing::Test {
 protected:
  static const Tokenizer& tokenizer() {
    static const Tokenizer own = small_tokenizer();
    return own;
  }
  static std::vector<std::int32_t> sequence(const std::string& text) {
    std::vector<std::int32_t> ids = tokenizer().encode(text);
    ids.insert(ids.begin(), tokenizer().special().cls);
    ids.push_back(tokenizer().special().separator);
    return ids;
  }
};

TEST_F(HiddenPieceTest, IsAWordWithinALine) {
  const MaskedTextReader reader(tokenizer());
  const std::string text = SmallCorpus::text(5);
  const auto ids = sequence(text);
  std::set<std::int32_t> positions;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const auto hidden = hide_piece(tokenizer(), ids, key);
    ASSERT_TRUE(hidden);
    const std::int32_t position = hidden->text.positions.at(0);
    positions.insert(position);
    EXPECT_EQ(ids[position], hidden->truth);
    auto masked = ids;
    masked[position] = tokenizer().special().mask;
    EXPECT_EQ(hidden->text.ids, masked);
    EXPECT_TRUE(std::ranges::any_of(tokenizer().text(hidden->truth).bytes,
                                    [](char c) { return kind_of(c) == letter; }));
    // The line, filled with the truth, is one of the text's, and both sides contain something.
    const std::string line = reader.filled(hidden->text, 0, hidden->truth).text();
    EXPECT_THAT(text, HasSubstr(line + "\n"));
    EXPECT_THAT(line, AllOf(Not(HasSubstr("\n")), Not(testing::StartsWith(" "))));
    for (const std::string& part : hidden->text.parts)
      EXPECT_NE(part.find_first_not_of(" \t"), std::string::npos) << line;
  }
  EXPECT_GT(positions.size(), 50u);
  EXPECT_EQ(hide_piece(tokenizer(), ids, 7)->text.positions, hide_piece(tokenizer(), ids, 7)->text.positions);
}

TEST_F(HiddenPieceTest, OfPoorTextIsTheBestThereIs) {
  const auto truth = [&](const std::string& text) {
    const auto hidden = hide_piece(tokenizer(), sequence(text), 3);
    return hidden ? tokenizer().text(hidden->truth).bytes : "none";
  };
  EXPECT_EQ(truth("1 > value > value_valueq"), " value");
  EXPECT_EQ(truth("1 > 2"), " >");
  EXPECT_EQ(truth(")\n"), ")");
  EXPECT_EQ(truth(" \n\n"), "none");
  EXPECT_EQ(truth(""), "none");
  EXPECT_EQ(truth("漢字"), "none");  // bytes
}

}  // namespace
}  // namespace comera::data
