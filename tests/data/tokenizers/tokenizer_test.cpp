#include "data/tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <map>

#include "kernels/core/check.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/data/tokenizers/foreign_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string>& awkward_texts() {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "\n",
      "\t",
      "\n\n\n",
      "   leading and trailing   ",
      "def f(x):\n    if x:\n\t\treturn  x + 1\r\n\r\n# end",
      "a\tb\t\tc \t d",
      "\r\n",
      "grüße 漢字 🙂 e\u0301 \u00a0 \u200b \ufeff",
      "▁literal▁ ▁▁ symbol",
      std::string("nul\0inside", 10),
      "[CLS] [MASK] [PAD] [UNK] [SEP] <0x0A> <s> </s> \u2585",
      "x = 'very_long_identifier_" + std::string(500, 'q') + "'",
      std::string(300, ' ') + "x",
  };
  return texts;
}

class TokenizerTest : public ::testing::TestWithParam<TokenizerModel> {
 protected:
  static const Tokenizer& tokenizer() {
    static const Tokenizer bpe = small_tokenizer(TokenizerModel::bpe);
    static const Tokenizer unigram = small_tokenizer(TokenizerModel::unigram);
    return GetParam() == TokenizerModel::bpe ? bpe : unigram;
  }
};

TEST_P(TokenizerTest, GivesBackTheText) {
  for (const std::string& text : awkward_texts()) {
    const auto ids = tokenizer().encode(text);
    EXPECT_EQ(tokenizer().decode(ids), text);
    for (const auto id : ids) EXPECT_FALSE(tokenizer().special().contains(id)) << text;
  }
  SmallCorpus corpus(20);
  Document document;
  while (corpus.next(document))
    EXPECT_EQ(tokenizer().decode(tokenizer().encode(document.text)), document.text);
}

TEST_P(TokenizerTest, TheCachedEncoderAgrees) {
  Encoder encoder(tokenizer());
  SmallCorpus corpus(20);
  Document document;
  std::vector<std::int32_t> ids;
  while (corpus.next(document)) {
    ids.clear();
    encoder.encode(document.text, ids);
    EXPECT_EQ(ids, tokenizer().encode(document.text));
  }
  for (const std::string& text : awkward_texts()) {
    ids.clear();
    encoder.encode(text, ids);
    EXPECT_EQ(ids, tokenizer().encode(text));
  }
}

TEST_P(TokenizerTest, CuttingTextChangesNothing) {
  sentencepiece::SentencePieceProcessor whole;
  ASSERT_TRUE(whole.LoadFromSerializedProto(tokenizer().bytes()).ok());
  SmallCorpus corpus(20);
  for (Document document; corpus.next(document);) {
    const std::vector<int> ids = whole.EncodeAsIds(document.text);
    EXPECT_EQ(tokenizer().encode(document.text), std::vector<std::int32_t>(ids.begin(), ids.end()));
  }
}

TEST_P(TokenizerTest, HasTheSpecialPiecesFirst) {
  EXPECT_EQ(tokenizer().special(), SpecialIds{});
  EXPECT_EQ(tokenizer().piece(0), "[PAD]");
  EXPECT_EQ(tokenizer().piece(4), "[MASK]");
  EXPECT_LE(tokenizer().vocabulary(), 600);
  EXPECT_GT(tokenizer().vocabulary(), 300);
  EXPECT_EQ(tokenizer().decode(std::vector<std::int32_t>{2, 3, 0, 4}), "");
  EXPECT_THAT(test::error_of([] { tokenizer().decode(std::vector<std::int32_t>{100000}); }),
              HasSubstr("token id 100000"));
}

TEST_P(TokenizerTest, TrainingIsDeterministicAndLoadsAgain) {
  test::TemporaryFolder folder;
  const auto path = folder.write("tokenizer.model", tokenizer().bytes());
  const Tokenizer loaded = Tokenizer::load(path);
  EXPECT_EQ(loaded.hash(), tokenizer().hash());
  EXPECT_EQ(loaded.encode("def f(x): return x"), tokenizer().encode("def f(x): return x"));
  EXPECT_EQ(small_tokenizer(GetParam()).hash(), tokenizer().hash());
}

TEST_P(TokenizerTest, ATruncatedModelIsRefusedByName) {
  test::TemporaryFolder folder;
  const std::string& whole = tokenizer().bytes();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    const auto path = folder.write("half.model", std::string_view(whole).substr(0, size));
    EXPECT_THAT(test::error_of([&] { Tokenizer::load(path); }),
                HasSubstr("half.model: is not a SentencePiece model"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TokenizerTest,
                         ::testing::Values(TokenizerModel::bpe, TokenizerModel::unigram),
                         [](const auto& each) {
                           return each.param == TokenizerModel::bpe ? "Bpe" : "Unigram";
                         });

TEST(Tokenizer, AForeignFileIsRefusedByName) {
  test::TemporaryFolder folder;
  const auto path = folder.write("foreign.model", "a text file that is no model at all\n");
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(path); }),
              HasSubstr("foreign.model: is not a SentencePiece model"));
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(folder / "none.model"); }),
              HasSubstr("none.model: no such file; expected a tokenizer"));
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(folder.path()); }),
              HasSubstr("has no tokenizer: neither tokenizer.json nor vocab.txt"));
}

// What SentencePiece itself says of a text.
std::vector<std::int32_t> reference(const Tokenizer& tokenizer, const std::string& text) {
  sentencepiece::SentencePieceProcessor processor;
  EXPECT_TRUE(processor.LoadFromSerializedProto(tokenizer.bytes()).ok());
  const std::vector<int> ids = processor.EncodeAsIds(text);
  return {ids.begin(), ids.end()};
}

const std::string plain_text = "def value_index(self.count, x):  if total > 35:";

TEST(ForeignTokenizer, KnownNamesAreFoundAndTextIsNormalisedAsTheModelSays) {
  const Tokenizer albert = foreign_tokenizer({{"pad_id", "0"},
                                              {"unk_id", "1"},
                                              {"bos_id", "-1"},
                                              {"eos_id", "-1"},
                                              {"control_symbols", "[CLS],[SEP],[MASK]"}});
  EXPECT_EQ(albert.special(), (SpecialIds{0, 1, 2, 3, 4}));
  EXPECT_EQ(albert.piece(0), "<pad>");
  EXPECT_EQ(albert.encode(plain_text), reference(albert, plain_text));
  EXPECT_FALSE(albert.restores_text());
  ASSERT_EQ(albert.notes().size(), 1u);
  EXPECT_THAT(albert.notes()[0], HasSubstr("foreign.model: the tokenizer normalises text"));
  EXPECT_EQ(albert.decode(albert.encode("  def \uff56alue\t x")), "def value x");
  Encoder encoder(albert);
  std::vector<std::int32_t> ids;
  for (const std::string& text : {plain_text, std::string("a b\n\tc"), std::string("\u2581x \u2581")}) {
    ids.clear();
    encoder.encode(text, ids);
    EXPECT_EQ(ids, reference(albert, text)) << text;
  }
  for (const std::string& text : awkward_texts())
    for (const auto id : albert.encode(text)) {
      EXPECT_FALSE(id != albert.special().unknown && albert.special().contains(id)) << text;
    }
}

TEST(ForeignTokenizer, MissingSpecialPiecesAreAddedBehindTheOthers) {
  // T5 has no beginning and no mask, XLNet other names.
  const Tokenizer t5 =
      foreign_tokenizer({{"pad_id", "0"}, {"eos_id", "1"}, {"unk_id", "2"}, {"bos_id", "-1"}});
  const std::int32_t pieces = t5.vocabulary() - 2;
  EXPECT_EQ(t5.special(), (SpecialIds{0, 2, pieces, 1, pieces + 1}));
  EXPECT_EQ(t5.piece(pieces), "[CLS]");
  EXPECT_EQ(t5.piece(pieces + 1), "[MASK]");
  EXPECT_EQ(t5.piece(1), "</s>");
  EXPECT_THAT(t5.notes()[0], HasSubstr("has no [CLS], [MASK]; added behind its " + std::to_string(pieces) +
                                       " pieces, which makes a vocabulary of " + std::to_string(pieces + 2)));
  EXPECT_EQ(t5.decode(std::vector<std::int32_t>{pieces, pieces + 1, 0, 1}), "");
  EXPECT_EQ(t5.encode(plain_text), reference(t5, plain_text));
  EXPECT_THAT(test::error_of([&] { t5.piece(pieces + 2); }), HasSubstr("outside the vocabulary"));
  const Tokenizer again = Tokenizer::from_bytes(t5.bytes(), "x");
  EXPECT_EQ(again.hash(), t5.hash());
  EXPECT_EQ(again.special(), t5.special());

  const Tokenizer xlnet =
      foreign_tokenizer({{"bos_id", "1"}, {"eos_id", "2"}, {"control_symbols", "<cls>,<sep>,<pad>,<mask>"}});
  EXPECT_EQ(xlnet.piece(xlnet.special().cls), "<cls>");
  EXPECT_EQ(xlnet.piece(xlnet.special().separator), "<sep>");
  EXPECT_EQ(xlnet.piece(xlnet.special().mask), "<mask>");
  const Tokenizer bare = foreign_tokenizer({{"bos_id", "-1"}, {"eos_id", "-1"}});
  EXPECT_EQ(bare.special().unknown, 0);
  EXPECT_EQ(bare.special().pad, bare.vocabulary() - 4);
  EXPECT_EQ(bare.special().mask, bare.vocabulary() - 1);
}

TEST(ForeignTokenizer, TextNeverBecomesASpecialPiece) {
  const Tokenizer tokenizer =
      foreign_tokenizer({{"user_defined_symbols", "[MASK]"}, {"control_symbols", "[CLS],[SEP]"}});
  ASSERT_THAT(reference(tokenizer, "x [MASK] y"), testing::Contains(tokenizer.special().mask));
  EXPECT_THAT(tokenizer.encode("x [MASK] y"), testing::Not(testing::Contains(tokenizer.special().mask)));
}

TEST(ForeignTokenizer, OneThatChangesNothingRestoresText) {
  const Tokenizer exact = foreign_tokenizer({{"normalization_rule_name", "identity"},
                                             {"add_dummy_prefix", "false"},
                                             {"remove_extra_whitespaces", "false"},
                                             {"byte_fallback", "true"},
                                             {"vocab_size", "450"},
                                             {"user_defined_symbols", "\n,\t"}});
  EXPECT_TRUE(exact.restores_text());
  for (const std::string& text : awkward_texts()) EXPECT_EQ(exact.decode(exact.encode(text)), text);
  EXPECT_TRUE(small_tokenizer().notes().empty());
  EXPECT_TRUE(small_tokenizer().restores_text());
}

TEST(Tokenizer, TheSampleIsBoundedAndIndependentOfOrder) {
  const auto train = [](bool reversed) {
    SmallCorpus corpus(60, reversed);
    return train_tokenizer(corpus, {.vocabulary = 400, .max_bytes = 10000, .progress = {}}).hash();
  };
  EXPECT_EQ(train(false), train(true));
}

TEST(Tokenizer, SaysWhatIsWrongWithItsOptions) {
  SmallCorpus none(0);
  EXPECT_THAT(test::error_of([&] { train_tokenizer(none, {}); }), HasSubstr("nothing to train on"));
  SmallCorpus some(3);
  EXPECT_THROW(train_tokenizer(some, {.vocabulary = 10, .progress = {}}), UsageError);
}

}  // namespace
}  // namespace comera::data
