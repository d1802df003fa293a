#include "data/masked_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <map>

#include "data/table_reader.h"
#include "foreign_tokenizer.h"
#include "small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

const std::string mark(MaskedText::mark);

// The ids of a text with piece `hidden` replaced by a mark.
Ids with_mask(const Tokenizer& tokenizer, Ids ids, std::size_t hidden) {
  ids[hidden] = tokenizer.special().mask;
  ids.insert(ids.begin(), tokenizer.special().cls);
  ids.push_back(tokenizer.special().separator);
  return ids;
}

struct Tried {
  int exact = 0;
  int lone_spaces = 0;  // before the hidden piece, which does not include a space
};

// Masks each piece of a text in turn, writes a mark in its place and expects the other ids to stay. `write`
// makes the text of two runs of ids around one.
template <class Write>
void hide_each(const Tokenizer& tokenizer, const std::string& text, Tried& tried, Write&& write) {
  const MaskedTextReader reader(tokenizer);
  const Ids ids = tokenizer.encode(text);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (tokenizer.text(ids[i]).byte) continue;  // half a character cannot be written
    const std::string written = write(std::span(ids).first(i), ids[i], std::span(ids).subspan(i + 1));
    const MaskedText read = reader.read(written);
    Ids expected = with_mask(tokenizer, ids, i);
    std::int32_t position = static_cast<std::int32_t>(i) + 1;
    if (i > 0 && tokenizer.text(ids[i - 1]).bytes == " ") {
      ++tried.lone_spaces;
      expected.erase(expected.begin() + position - 1);
      --position;
    } else {
      ++tried.exact;
    }
    ASSERT_EQ(read.ids, expected) << written;
    ASSERT_EQ(read.positions, std::vector<std::int32_t>{position}) << written;
    // Filling in the truth restores the text.
    if (tokenizer.restores_text() && !read.takes_space[0]) {
      ASSERT_EQ(reader.filled(read, 0, ids[i]).text(), text);
    }
  }
}

class OwnTokenizer : public ::testing::TestWithParam<TokenizerModel> {
 protected:
  static const Tokenizer& tokenizer() {
    static const Tokenizer bpe = small_tokenizer(TokenizerModel::bpe);
    static const Tokenizer unigram = small_tokenizer(TokenizerModel::unigram);
    return GetParam() == TokenizerModel::bpe ? bpe : unigram;
  }
};

TEST_P(OwnTokenizer, BothSidesOfAMarkAreAsInTheWholeText) {
  Tried tried;
  const auto write = [&](std::span<const std::int32_t> before, std::int32_t,
                         std::span<const std::int32_t> behind) {
    return tokenizer().decode(before) + mark + tokenizer().decode(behind);
  };
  hide_each(tokenizer(), SmallCorpus::text(1), tried, write);
  for (const std::string text :
       {"   leading and trailing   ", "def f(x):\n        if x:\n\t\treturn  x + 1\r\n\r\n# end",
        "grüße 漢字 🙂 def_漢 ▁x▁ value", "x  =   'value index'  # nothing\n"})
    hide_each(tokenizer(), text, tried, write);
  EXPECT_GT(tried.exact, 200);
  EXPECT_LT(tried.lone_spaces, tried.exact / 5);
}

TEST_P(OwnTokenizer, TheSpaceOfAWordIsItsMarks) {
  const MaskedTextReader reader(tokenizer());
  const MaskedText spaced = reader.read("return [MASK] + x"), joined = reader.read("return[MASK] + x");
  EXPECT_EQ(spaced.ids, joined.ids);
  EXPECT_THAT(spaced.takes_space, ElementsAre(true));
  EXPECT_THAT(joined.takes_space, ElementsAre(false));
  EXPECT_THAT(spaced.parts, ElementsAre("return ", " + x"));
  const std::int32_t word = tokenizer().encode("a value")[1];
  ASSERT_EQ(tokenizer().text(word).bytes, " value");
  EXPECT_EQ(reader.filled(spaced, 0, word).text(), "return value + x");
  EXPECT_EQ(reader.filled(joined, 0, word).text(), "return value + x");
  EXPECT_EQ(reader.filled(spaced, 0, tokenizer().encode("\n")[0]).text(), "return\n + x");
  // Pieces that are not text have a name.
  EXPECT_EQ(reader.filled(spaced, 0, tokenizer().special().unknown).text(), "return[UNK] + x");
  const Ids bytes = tokenizer().encode("\xf0\x9f\x99\x82");
  ASSERT_EQ(bytes.size(), 4u);
  EXPECT_EQ(reader.filled(spaced, 0, bytes[0]).text(), "return<0xF0> + x");
}

TEST_P(OwnTokenizer, SeveralMarks) {
  const MaskedTextReader reader(tokenizer());
  const MaskedText text = reader.read("[MASK]value[MASK] [MASK](x)[MASK]");
  const std::int32_t mask = tokenizer().special().mask;
  Ids expected = {tokenizer().special().cls, mask};
  const auto add = [&](const char* part) {
    const Ids ids = tokenizer().encode(part);
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  add("value");
  expected.insert(expected.end(), {mask, mask});
  add("(x)");
  expected.insert(expected.end(), {mask, tokenizer().special().separator});
  EXPECT_EQ(text.ids, expected);
  ASSERT_EQ(text.positions.size(), 4u);
  for (const std::int32_t position : text.positions) EXPECT_EQ(text.ids[position], mask);
  EXPECT_THAT(text.takes_space, ElementsAre(false, false, true, false));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(reader.unfilled(text, i).text(), "[MASK]value[MASK] [MASK](x)[MASK]");
  const std::int32_t word = tokenizer().encode("a value")[1];
  EXPECT_EQ(reader.filled(text, 2, word).before, "[MASK]value[MASK]");
  EXPECT_EQ(reader.filled(text, 2, word).text(), "[MASK]value[MASK] value(x)[MASK]");
  EXPECT_EQ(reader.filled(text, 3, word).text(), "[MASK]value[MASK] [MASK](x) value");
  // Nothing else in a text is special.
  EXPECT_TRUE(reader.read("[CLS] [mask] <mask> [MASK").positions.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, OwnTokenizer,
                         ::testing::Values(TokenizerModel::bpe, TokenizerModel::unigram),
                         [](const auto& each) {
                           return each.param == TokenizerModel::bpe ? "Bpe" : "Unigram";
                         });

std::string texts_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer.text(id).bytes;
  return text;
}

TEST(ForeignTokenizer, BothSidesOfAMarkAreAsInTheWholeText) {
  const std::map<std::string, std::string> of_llama = {{"model_type", "bpe"},
                                                       {"byte_fallback", "true"},
                                                       {"vocab_size", "450"},
                                                       {"normalization_rule_name", "identity"},
                                                       {"remove_extra_whitespaces", "false"}};
  for (const auto& settings : std::vector<std::map<std::string, std::string>>{
           {}, {{"model_type", "bpe"}}, {{"add_dummy_prefix", "false"}}, of_llama}) {
    const Tokenizer tokenizer = foreign_tokenizer(settings);
    EXPECT_FALSE(tokenizer.restores_text());
    const bool prefix = !settings.contains("add_dummy_prefix");
    Tried tried;
    for (const std::string text : {"def value_index(self.count, x): if total > 35:",
                                   "return node[result]  > other_total # value", "x"})
      hide_each(
          tokenizer, text, tried,
          [&](std::span<const std::int32_t> before, std::int32_t, std::span<const std::int32_t> behind) {
            std::string written = texts_of(tokenizer, before);
            // The space that the model puts before a text, which it has not.
            if (prefix && written.starts_with(' ')) written.erase(0, 1);
            return written + mark + texts_of(tokenizer, behind);
          });
    EXPECT_GT(tried.exact, 20);
  }
}

TEST(ForeignTokenizer, WhatItKnowsNotStaysBesideAMark) {
  const Tokenizer tokenizer = foreign_tokenizer({});
  const std::int32_t unknown = tokenizer.special().unknown;
  const MaskedTextReader reader(tokenizer);
  const auto between = [&](const std::string& text) {
    const MaskedText read = reader.read(text);
    EXPECT_EQ(read.ids.front(), tokenizer.special().cls);
    EXPECT_EQ(read.ids.back(), tokenizer.special().separator);
    return Ids(read.ids.begin() + 1, read.ids.end() - 1);
  };
  const std::int32_t mask = tokenizer.special().mask;
  EXPECT_THAT(between("漢[MASK]"), ElementsAre(tokenizer.encode("漢")[0], unknown, mask));
  EXPECT_THAT(between("[MASK]漢"), ElementsAre(mask, unknown));
  EXPECT_THAT(between("[MASK]漢字[MASK]"), ElementsAre(mask, unknown, mask));
  EXPECT_THAT(between("[MASK]"), ElementsAre(mask));
  EXPECT_THAT(between("[MASK]   [MASK]"), ElementsAre(mask, mask));
  // Spaces that it does not see are not shown twice.
  const std::int32_t word = tokenizer.encode("value")[0];
  ASSERT_EQ(tokenizer.text(word).bytes, " value");
  EXPECT_EQ(reader.filled(reader.read("[MASK] x"), 0, word).text(), "value x");
  EXPECT_EQ(reader.filled(reader.read("return [MASK] x"), 0, word).text(), "return value x");
}

TEST(WordPiece, BothSidesOfAMarkAreAsInTheWholeText) {
  for (const std::string kind : {"uncased", "cased"}) {
    const Tokenizer tokenizer =
        Tokenizer::load(std::string(COMERA_ORACLE) + "/wordpiece_" + kind + "_vocab.txt");
    const auto goes_on = [&](std::int32_t id) { return tokenizer.text(id).inside_word; };
    Tried tried;
    TableReader cases(std::string(COMERA_ORACLE) + "/wordpiece_cases.jsonl", {.columns = {"text"}});
    for (TableRow row; cases.next(row);) {
      // The text of the pieces; texts that they do not represent completely are skipped.
      const std::string text = tokenizer.decode(tokenizer.encode(*row.fields[0]));
      if (testing::Matches(testing::Contains(tokenizer.special().unknown))(tokenizer.encode(*row.fields[0])))
        continue;
      hide_each(tokenizer, text, tried,
                [&](std::span<const std::int32_t> before, std::int32_t hidden,
                    std::span<const std::int32_t> behind) {
                  const bool apart = !behind.empty() && !goes_on(behind[0]);
                  return tokenizer.decode(before) + (goes_on(hidden) ? "" : " ") + mark + (apart ? " " : "") +
                         tokenizer.decode(behind);
                });
    }
    EXPECT_GT(tried.exact, 300);
  }
}

TEST(WordPiece, WordsAreToldApartWhereTheyAreFilledIn) {
  const Tokenizer tokenizer = Tokenizer::load(std::string(COMERA_ORACLE) + "/wordpiece_uncased_vocab.txt");
  const MaskedTextReader reader(tokenizer);
  const Ids playing = tokenizer.encode("playing");
  ASSERT_EQ(playing.size(), 2u);
  EXPECT_EQ(reader.filled(reader.read("the [MASK] words"), 0, playing[0]).text(), "the play words");
  EXPECT_EQ(reader.filled(reader.read("the play [MASK] words"), 0, playing[1]).text(), "the playing words");
  EXPECT_EQ(reader.filled(reader.read("the[MASK] words"), 0, playing[0]).text(), "the play words");
  EXPECT_EQ(reader.filled(reader.read("[MASK]ing"), 0, playing[0]).text(), "playing");
  EXPECT_EQ(reader.read("[MASK]ing").ids[2], playing[1]);
  EXPECT_EQ(reader.read("[MASK] play").ids[2], playing[0]);
}

}  // namespace
}  // namespace comera::data
