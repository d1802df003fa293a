// Tokens that were added to a tokenizer, found in text as Hugging Face's tokenizers 0.23.3 find them: the ids
// are that library's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json token(int id, const std::string& content, const json& flags = json::object()) {
  json added = {{"id", id}, {"content", content}, {"special", false}, {"normalized", false}};
  added.update(flags);
  return added;
}

// Pieces: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, a 5, b 6, ##b 7; then the added ones.
Tokenizer with(const std::vector<json>& added) {
  const json file = {{"added_tokens", added},
                     {"comera", json::object()},
                     {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
                     {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                     {"model",
                      {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"vocab",
                        {{"[PAD]", 0},
                         {"[UNK]", 1},
                         {"[CLS]", 2},
                         {"[SEP]", 3},
                         {"[MASK]", 4},
                         {"a", 5},
                         {"b", 6},
                         {"##b", 7}}}}}};
  return Tokenizer::from_bytes(file.dump(), "tokenizer.json");
}

TEST(AddedTokens, AreFoundBeforeAllOthers) {
  const Tokenizer tokenizer =
      with({token(8, "zed"), token(9, "zedder"), token(10, "[E1]", {{"special", true}})});
  EXPECT_EQ(tokenizer.vocabulary(), 11);
  EXPECT_THAT(tokenizer.encode("a zed b"), ElementsAre(5, 8, 6));
  EXPECT_THAT(tokenizer.encode("abzedderzed"), ElementsAre(5, 7, 9, 8));
  EXPECT_THAT(tokenizer.encode("a Zed [E1][E1]"), ElementsAre(5, 1, 10, 10));
  EXPECT_THAT(tokenizer.encode("zed"), ElementsAre(8));
  EXPECT_THAT(tokenizer.encode("ze"), ElementsAre(1));
  std::vector<std::int32_t> cached;
  Encoder(tokenizer).encode("a zed b", cached);
  EXPECT_THAT(cached, ElementsAre(5, 8, 6));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{5, 8, 6, 7}), "a zed bb");
  EXPECT_EQ(tokenizer.piece(10), "[E1]");
  EXPECT_EQ(tokenizer.text(8).bytes, " zed");
  EXPECT_THAT(tokenizer.encode_between("b zed b", true, false), ElementsAre(7, 8, 6));
}

TEST(AddedTokens, OfNormalisedTextAreNormalisedThemselves) {
  const Tokenizer tokenizer = with({token(8, "Caf\u00e9", {{"normalized", true}})});
  EXPECT_THAT(tokenizer.encode("a CAF\u00c9 b"), ElementsAre(5, 8, 6));
  EXPECT_THAT(tokenizer.encode("acafe\u0301b"), ElementsAre(5, 8, 6));
}

TEST(AddedTokens, MayBeSingleWordsAndTakeSpaces) {
  const Tokenizer single = with({token(8, "zed", {{"single_word", true}})});
  EXPECT_THAT(single.encode("zed a-zed azed zed_ \u00e9zed"), ElementsAre(8, 5, 1, 8, 1, 1, 1, 1));
  // With byte-level BPE the spaces would be pieces; here the next match shows it.
  const Tokenizer both =
      with({token(8, "zed", {{"rstrip", true}}), token(9, " a", {{"lstrip", true}}), token(10, "  b")});
  EXPECT_THAT(both.encode("zed  b zed a   a"), ElementsAre(8, 10, 8, 9, 9));
}

TEST(AddedTokens, AreExportedWithTheirFlags) {
  const Tokenizer tokenizer = with({token(8, "zed", {{"single_word", true}, {"normalized", true}})});
  const Tokenizer back = Tokenizer::from_bytes(tokenizer_json(tokenizer), "tokenizer.json");
  EXPECT_EQ(back.added_tokens(), tokenizer.added_tokens());
  EXPECT_EQ(back.added_tokens().size(), 1u);
}

// Earlier versions read their files this way.
TEST(AddedTokens, SpecialOnesOfAnOlderFileNeverComeFromText) {
  json file = json::parse(with({token(8, "[E1]", {{"special", true}})}).bytes());
  file.erase("comera");
  const Tokenizer tokenizer = Tokenizer::from_bytes(file.dump(), "tokenizer.json");
  EXPECT_THAT(tokenizer.encode("a [E1]"), ElementsAre(5, 1, 1, 1));
  EXPECT_EQ(tokenizer.vocabulary(), 9);
  EXPECT_EQ(tokenizer.piece(8), "[E1]");
  EXPECT_EQ(tokenizer.text(8).bytes, "");
}

// Names of special pieces are text like any other.
TEST(AddedTokens, AreNotTheSpecialPieces) {
  const Tokenizer tokenizer = with({token(4, "[MASK]", {{"special", true}}), token(8, "zed")});
  EXPECT_THAT(tokenizer.encode("a [MASK]"), ElementsAre(5, 1, 1, 1));
  EXPECT_EQ(tokenizer.added_tokens().size(), 1u);
}

}  // namespace
}  // namespace comera::data
