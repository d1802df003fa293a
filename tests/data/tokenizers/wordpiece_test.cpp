// WordPiece against sequences of ids that the reference implementation gave; see tests/oracle/README.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "data/tables/table_reader.h"
#include "data/tokenizers/text/words.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tokenizer oracle_tokenizer(const std::string& kind) {
  return Tokenizer::load(std::string(COMERA_ORACLE) + "/wordpiece_" + kind + "_vocab.txt");
}

TEST(WordPiece, AgreesWithTheReference) {
  for (const std::string kind : {"uncased", "cased"}) {
    const Tokenizer tokenizer = oracle_tokenizer(kind);
    Encoder encoder(tokenizer);
    TableReader cases(std::string(COMERA_ORACLE) + "/wordpiece_cases.jsonl", {.columns = {"text", kind}});
    std::int64_t several = 0;
    for (TableRow row; cases.next(row);) {
      std::vector<std::int32_t> expected, cached;
      std::istringstream ids(*row.fields[1]);
      for (std::int32_t id = 0; ids >> id;) expected.push_back(id);
      EXPECT_EQ(tokenizer.encode(*row.fields[0]), expected)
          << kind << " line " << row.line << ": " << *row.fields[0];
      encoder.encode(*row.fields[0], cached);
      EXPECT_EQ(cached, expected) << row.line;
      several += expected.size() > 3;
    }
    EXPECT_GT(several, 50);
    EXPECT_TRUE(cases.counts().skipped.empty());
  }
}

TEST(WordPiece, SpecialPiecesAreNamedAndNeverComeOutOfText) {
  const Tokenizer tokenizer = oracle_tokenizer("uncased");
  EXPECT_EQ(tokenizer.piece(tokenizer.special().mask), "[MASK]");
  EXPECT_EQ(tokenizer.piece(tokenizer.special().cls), "[CLS]");
  EXPECT_FALSE(tokenizer.restores_text());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("The  Playing, of words!")), "the playing , of words !");
  for (const auto id : tokenizer.encode("[MASK] [CLS][SEP] [PAD]")) {
    EXPECT_TRUE(id == tokenizer.special().unknown || !tokenizer.special().contains(id));
  }
  const test::TemporaryFolder folder;
  const Tokenizer bare = Tokenizer::load(folder.write("vocab.txt", "[UNK]\na\n##b\n"));
  EXPECT_EQ(bare.vocabulary(), 7);
  EXPECT_EQ(bare.piece(4), "[PAD]");
  EXPECT_THAT(
      bare.notes()[1],
      HasSubstr(
          "has no [SEP], [PAD], [CLS], [MASK]; added behind its 3 pieces, which makes a vocabulary of 7"));
  EXPECT_THAT(bare.encode("a abb " + std::string(100, 'a') + " A" + std::string(99, 'b') + " A" +
                          std::string(100, 'b'))
                  .size(),
              1 + 3 + 1 + 100 + 1);
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(folder.write("other.txt", "a\nb\n")); }),
              HasSubstr("nor is it a WordPiece vocabulary"));
}

TEST(WordPiece, WordsAreThoseOfTheBasicTokenization) {
  const Tokenizer tokenizer = oracle_tokenizer("uncased");
  const WordTable words(tokenizer);
  const auto ids = tokenizer.encode("playing words played");
  std::vector<std::string> found;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || !words.joins(ids[i - 1], ids[i])) found.emplace_back();
    found.back() += tokenizer.text(ids[i]).bytes;
  }
  EXPECT_GT(ids.size(), 3u);
  EXPECT_THAT(found, ElementsAre(" playing", " words", " played"));
}

}  // namespace
}  // namespace comera::data
