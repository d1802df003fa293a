// What the files of a tokenizer's folder say together, as transformers 5.24 takes them: the ids are that
// library's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/masking/masked_text.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/hash.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr const char* special = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

// 5 The, 6 the, 7 cafe, 8 café, 9 caf, 10 中, 11 国, 12 中国
std::string pieces() {
  return std::string(special) + "The\nthe\ncafe\ncaf\u00e9\ncaf\n\u4e2d\n\u56fd\n\u4e2d\u56fd\n";
}

struct Folder : test::TemporaryFolder {
  Tokenizer open() const { return load_tokenizer_folder(path()); }
  void config(const json& values) const { write("tokenizer_config.json", values.dump()); }
};

TEST(TokenizerSettings, ComeFromTheConfiguration) {
  const std::string text = "The caf\u00e9 \u4e2d\u56fd";
  for (const auto& [config, ids] : std::vector<std::pair<json, Ids>>{
           {{{"tokenizer_class", "BertTokenizer"}}, {6, 7, 10, 11}},
           {{{"do_lower_case", true}, {"strip_accents", nullptr}}, {6, 7, 10, 11}},
           {{{"do_lower_case", false}}, {5, 8, 10, 11}},
           {{{"do_lower_case", true}, {"strip_accents", false}}, {6, 8, 10, 11}},
           {{{"do_lower_case", false}, {"strip_accents", true}}, {5, 7, 10, 11}},
           {{{"do_lower_case", false}, {"tokenize_chinese_chars", false}}, {5, 8, 12}}}) {
    const Folder folder;
    folder.write("vocab.txt", pieces());
    folder.config(config);
    const Tokenizer tokenizer = folder.open();
    EXPECT_EQ(tokenizer.encode(text), ids) << config;
    EXPECT_EQ(Tokenizer::load(folder / "vocab.txt").encode(text), ids) << config;
    // What is kept of it says the same, and so does what is exported.
    EXPECT_EQ(Tokenizer::from_bytes(tokenizer.bytes(), "x").encode(text), ids) << config;
    EXPECT_EQ(Tokenizer::from_bytes(tokenizer_json(tokenizer), "x").encode(text), ids) << config;
    EXPECT_THAT(described(tokenizer.settings()), HasSubstr("tokenizer_config.json"));
  }
}

// BERT's pieces between RoBERTa's special tokens, two of which are between the texts of a pair.
TEST(TokenizerSettings, OfMPNetHaveItsSpecialTokens) {
  const Folder folder;
  folder.write("vocab.txt", "<s>\n<pad>\n</s>\n[UNK]\n<mask>\nthe\ncafe\n##s\n\u4e2d\n\u56fd\n");
  const auto expect = [](const Tokenizer& tokenizer) {
    EXPECT_THAT(tokenizer.encode("The Caf\u00e9s \u4e2d\u56fd x"), ElementsAre(5, 6, 7, 8, 9, 3));
    EXPECT_EQ(tokenizer.pair_separators(), 2);
    const SpecialIds& ids = tokenizer.special();
    EXPECT_THAT((std::vector{ids.cls, ids.pad, ids.separator, ids.unknown, ids.mask}),
                ElementsAre(0, 1, 2, 3, 4));
    // Texts may call the mask as the tokenizer does.
    const MaskedText text = MaskedTextReader(tokenizer).read("the <mask> [MASK]");
    EXPECT_THAT(text.ids, ElementsAre(0, 5, 4, 4, 2));
    EXPECT_THAT(text.positions, ElementsAre(2, 3));
  };
  folder.config({{"tokenizer_class", "MPNetTokenizer"}});
  const Tokenizer named = folder.open();
  expect(named);
  EXPECT_THAT(described(named.settings()), HasSubstr("MPNetTokenizer's default"));
  const std::string written = tokenizer_json(named);
  expect(Tokenizer::from_bytes(named.bytes(), "x"));
  folder.write("alone/tokenizer.json", written);
  expect(Tokenizer::load(folder / "alone" / "tokenizer.json"));
  folder.write("tokenizer.json", written);
  expect(folder.open());
  folder.config({{"tokenizer_class", "MPNetTokenizerFast"}, {"do_lower_case", false}});
  EXPECT_THAT(folder.open().encode("The the"), ElementsAre(3, 5));
  // The model's type names the class, too.
  const Folder of_model;
  of_model.write("vocab.txt", "<s>\n<pad>\n</s>\n[UNK]\n<mask>\nthe\ncafe\n##s\n\u4e2d\n\u56fd\n");
  of_model.write("config.json", R"({"model_type": "mpnet"})");
  expect(of_model.open());
}

// The file and the key that each added token is from.
TEST(TokenizerSettings, AddedTokensNameTheirFileAndKey) {
  const auto source = [](const Folder& folder) {
    const Tokenizer tokenizer = folder.open();
    for (const TokenizerSetting& setting : tokenizer.settings())
      if (setting.name == "added tokens") return setting.value + " of " + setting.source;
    return std::string();
  };
  const Folder folder;
  folder.write("vocab.txt", pieces());
  folder.config({{"tokenizer_class", "BertTokenizer"}});
  EXPECT_EQ(source(folder), "") << "special tokens that are pieces are not added";
  folder.write("added_tokens.json", R"({"<new>": 13})");
  EXPECT_EQ(source(folder), "1 of added_tokens.json");
  folder.config({{"tokenizer_class", "BertTokenizer"},
                 {"added_tokens_decoder", {{"13", {{"content", "<new>"}}}}},
                 {"additional_special_tokens", {"<more>"}}});
  EXPECT_EQ(source(folder), "2 of tokenizer_config.json: added_tokens_decoder, additional_special_tokens");
}

// transformers puts BertTokenizer's settings in the place of tokenizer.json's, but not
// PreTrainedTokenizerFast's.
TEST(TokenizerSettings, OfAClassComeBeforeThoseOfTokenizerJson) {
  const Folder folder;
  folder.write("vocab.txt", pieces());
  folder.config({{"do_lower_case", false}});
  const std::string kept = tokenizer_json(folder.open());
  folder.write("tokenizer.json", kept);
  folder.config({{"tokenizer_class", "BertTokenizer"}});
  EXPECT_THAT(folder.open().encode("The"), ElementsAre(6));
  folder.config({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  EXPECT_THAT(folder.open().encode("The"), ElementsAre(5));
  EXPECT_EQ(folder.open().bytes(), kept);
}

TEST(TokenizerSettings, OfABareVocabularyAreGuessedAndSaid) {
  // Nothing that text can give has a capital letter.
  const std::string lowered = std::string(special) + "<S>\napple\n##s\n";
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("vocab.txt", lowered));
  EXPECT_THAT(tokenizer.encode("Apples"), ElementsAre(6, 7));
  EXPECT_THAT(tokenizer.notes()[0],
              AllOf(HasSubstr("no tokenizer_config.json lies beside it"),
                    HasSubstr("in lower case and without accents"), HasSubstr("--keep-case")));
  // Loaded again from what is kept of it, under whatever name, it is the same.
  const Tokenizer kept = Tokenizer::load(folder / "vocab.txt", LetterCase::kept);
  EXPECT_EQ(Tokenizer::load(folder.write("run/tokenizer.model", kept.bytes())).bytes(), kept.bytes());
  EXPECT_EQ(Tokenizer::load(folder.write("run/tokenizer.model", tokenizer.bytes())).bytes(),
            tokenizer.bytes());
  EXPECT_THAT(Tokenizer::load(folder / "vocab.txt", LetterCase::kept).encode("Apples apples"),
              ElementsAre(1, 6, 7));
  const Tokenizer cased = Tokenizer::load(folder.write("cased.txt", pieces()));
  EXPECT_THAT(cased.encode("The"), ElementsAre(5));
  EXPECT_THAT(cased.notes()[0], AllOf(HasSubstr("taken as it is"), HasSubstr("--lower-case")));
  EXPECT_THAT(Tokenizer::load(folder / "cased.txt", LetterCase::lowered).encode("The caf\u00e9"),
              ElementsAre(6, 7));
  folder.write("tokenizer_config.json", "{}");
  EXPECT_THAT(test::error_of([&] { Tokenizer::load(folder / "cased.txt", LetterCase::lowered); }),
              HasSubstr("only for a vocab.txt without a tokenizer_config.json"));
}

TEST(TokenizerSettings, AVocabularyMayHaveDoubledAndEmptyLines) {
  const Folder folder;
  folder.config({{"tokenizer_class", "BertTokenizer"}});
  folder.write("vocab.txt", std::string(special) + "a\n$\n\nb \n$\r\nc\u3000\n\n");
  const Tokenizer tokenizer = folder.open();
  EXPECT_THAT(tokenizer.encode("a $ b c"), ElementsAre(5, 9, 8, 10));
  EXPECT_EQ(tokenizer.vocabulary(), 11);
  const Tokenizer back = Tokenizer::from_bytes(tokenizer_json(tokenizer), "x");
  EXPECT_THAT(back.encode("a $ b c"), ElementsAre(5, 9, 8, 10));
}

TEST(TokenizerSettings, AddedTokensOfAllFilesCount) {
  const Folder folder;
  folder.write("vocab.txt", pieces());
  folder.config({{"tokenizer_class", "BertTokenizer"}, {"additional_special_tokens", {"[E1]"}}});
  folder.write("added_tokens.json", R"({"zed": 13, "[E1]": 14})");
  EXPECT_THAT(folder.open().encode("the zed [E1]"), ElementsAre(6, 13, 14));
  // Ids that transformers would not give them.
  folder.write("added_tokens.json", R"({"zed": 20})");
  EXPECT_THAT(test::error_of([&] { folder.open(); }),
              AllOf(HasSubstr("added_tokens.json: \"zed\" has the id 20 there, but 13")));
  // added_tokens_decoder comes before added_tokens.json.
  folder.config({{"added_tokens_decoder", {{"13", {{"content", "qqq"}, {"normalized", true}}}}}});
  EXPECT_THAT(folder.open().encode("the zed QQQ"), ElementsAre(6, 1, 13));
}

TEST(TokenizerSettings, NameTheSpecialPieces) {
  const Folder folder;
  folder.write("vocab.txt", "<p>\n[UNK]\n<c>\n<e>\n<m>\na\n");
  folder.config({{"pad_token", "<p>"}, {"cls_token", "<c>"}, {"sep_token", {{"content", "<e>"}}}});
  folder.write("special_tokens_map.json", R"({"mask_token": {"content": "<m>", "lstrip": true}})");
  const Tokenizer tokenizer = folder.open();
  EXPECT_EQ(tokenizer.special(), (SpecialIds{.pad = 0, .unknown = 1, .cls = 2, .separator = 3, .mask = 4}));
  EXPECT_EQ(tokenizer.vocabulary(), 6);
  EXPECT_EQ(Tokenizer::from_bytes(tokenizer.bytes(), "x").special(), tokenizer.special());
}

TEST(TokenizerSettings, WhatTokenizesOtherwiseIsRefusedByName) {
  const Folder folder;
  folder.write("vocab.txt", pieces());
  for (const auto& [config, message] : std::vector<std::pair<json, std::string>>{
           {{{"tokenizer_class", "BertJapaneseTokenizer"}},
            "tokenizer_class = BertJapaneseTokenizer tokenizes in a way"},
           {{{"never_split", {"zed"}}}, "never_split = [\"zed\"] is not supported"},
           {{{"do_basic_tokenize", false}}, "do_basic_tokenize = false is not supported"},
           {{{"do_lower_case", "yes"}}, "do_lower_case = \"yes\" is neither true nor false"},
           {{{"auto_map", {{"AutoTokenizer", {"tokenization.Own", nullptr}}}}},
            "auto_map names a tokenizer with custom code"},
           {{{"tokenizer_class", "PreTrainedTokenizerFast"}}, "wants a tokenizer.json"}}) {
    folder.config(config);
    EXPECT_THAT(test::error_of([&] { folder.open(); }),
                AllOf(HasSubstr("tokenizer_config.json: "), HasSubstr(message)));
  }
}

// RoBERTa's: two separators between two texts, said by the class or by tokenizer.json.
TEST(TokenizerSettings, RobertaHasTwoSeparatorsInPairs) {
  const Folder folder;
  folder.write("vocab.json",
               R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7})");
  folder.write("merges.txt", "#version: 0.2\na b\n");
  const Tokenizer tokenizer = folder.open();
  EXPECT_EQ(tokenizer.pair_separators(), 2);
  EXPECT_EQ(Tokenizer::load(folder / "vocab.json").bytes(), tokenizer.bytes());
  EXPECT_EQ(Tokenizer::from_bytes(tokenizer.bytes(), "x").pair_separators(), 2);
  const json exported = json::parse(tokenizer_json(tokenizer));
  EXPECT_EQ(exported["post_processor"]["pair"].size(), 6u);
  EXPECT_EQ(exported["model"]["merges"][0], "a b");  // as versions before 0.20 read it
  folder.write("alone/tokenizer.json", exported.dump());
  EXPECT_EQ(Tokenizer::load(folder / "alone" / "tokenizer.json").pair_separators(), 2);
}

// Whatever is wrong in one of the files: a tokenizer, or an error that names a file.
TEST(TokenizerSettings, BrokenFilesCrashNothing) {
  const Folder folder;
  folder.write("vocab.txt", pieces());
  folder.config({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"mask_token", "[MASK]"}});
  const json whole = json::parse(tokenizer_json(Tokenizer::from_bytes(pieces(), "x")));
  const std::vector<json> values = {nullptr,
                                    true,
                                    7,
                                    -1,
                                    0.5,
                                    "text",
                                    json::array(),
                                    json::array({"zed"}),
                                    json::array({1}),
                                    json::object(),
                                    {{"content", 3}},
                                    {{"content", "zed"}}};
  std::int64_t refused = 0, taken = 0;
  const auto open = [&] {
    try {
      folder.open().encode("The zed");
      ++taken;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(folder.path().string()));
      ++refused;
    }
  };
  for (const auto& [key, old] : whole.items())
    for (const json& value : values) {
      json changed = whole;
      changed[key] = value;
      folder.write("tokenizer.json", changed.dump());
      open();
    }
  folder.write("tokenizer.json", whole.dump());
  for (const char* name : {"PreTrainedTokenizerFast", "BertTokenizer"})
    for (const char* key :
         {"added_tokens_decoder", "extra_special_tokens", "additional_special_tokens", "mask_token",
          "do_lower_case", "strip_accents", "auto_map", "never_split", "tokenizer_class"})
      for (const json& value : values) {
        json config = {{"tokenizer_class", name}};
        config[key] = value;
        folder.config(config);
        open();
      }
  folder.config({{"tokenizer_class", "BertTokenizer"}});
  for (const char* file : {"added_tokens.json", "special_tokens_map.json"})
    for (const json& value : values) {
      folder.write(file, value.dump());
      open();
      folder.write(file, json{{"mask_token", value}, {"zed", value}}.dump());
      open();
      std::filesystem::remove(folder / file);
    }
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 50);
}

TEST(TokenizerSettings, MergesThatWereCutShortAreRefused) {
  const Folder folder;
  folder.write("vocab.json", R"({"<s>": 0, "a": 1, "b": 2, "ab": 3, "abb": 4, "extra": 5})");
  folder.write("merges.txt", "#version: 0.2\na b\nab b\n");
  EXPECT_THAT(folder.open().encode("abb"), ElementsAre(4));
  for (const char* cut : {"", "#version: 0.2\n", "#version: 0.2\na b\n"}) {
    folder.write("merges.txt", cut);
    EXPECT_THAT(test::error_of([&] { folder.open(); }),
                AllOf(HasSubstr("merges.txt: no merge makes \"ab"), HasSubstr("cut short")));
  }
  folder.write("merges.txt", "a b\n");
  folder.write("added_tokens.json", R"({"abb": 4})");
  EXPECT_THAT(folder.open().encode("abb"), ElementsAre(4));
}

// What an earlier version kept, as it read it: the same hash, ids and number of pieces.
TEST(TokenizerSettings, WhatEarlierVersionsKeptIsReadAsTheyReadIt) {
  const Folder folder;
  // Empty lines were pieces that nothing gives; a capital anywhere made a vocabulary of text as it is.
  const std::string text = std::string(special) + "<S>\napple\n##s\n\n";
  const Tokenizer kept = Tokenizer::from_bytes(text, "x");
  EXPECT_EQ(kept.vocabulary(), 9);
  EXPECT_EQ(kept.encode("Apples apples"), (Ids{1, 6, 7}));
  EXPECT_EQ(kept.hash(), storage::hash128(text).hex());
  // A run's own copy is what it was.
  EXPECT_EQ(Tokenizer::load(folder.write("run/tokenizer.model", text)).hash(), kept.hash());
  EXPECT_NE(Tokenizer::load(folder.write("vocab.txt", text)).hash(), kept.hash());
  // RoBERTa's had one separator in pairs, and the same ids.
  folder.write("v.json",
               R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7})");
  const std::string roberta =
      R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "post_processor": {"type": "RobertaProcessing"},
    "model": {"type": "BPE", "vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7},
    "merges": ["a b"]}})";
  const Tokenizer before = Tokenizer::from_bytes(roberta, "x"),
                  now = Tokenizer::load(folder.write("tokenizer.json", roberta));
  EXPECT_EQ(before.pair_separators(), 1);
  EXPECT_EQ(now.pair_separators(), 2);
  EXPECT_EQ(now.hash(), before.hash());
  EXPECT_EQ(Tokenizer::from_bytes(now.bytes(), "x").hash(), before.hash());
  EXPECT_EQ(Tokenizer::from_bytes(now.bytes(), "x").pair_separators(), 2);
}

TEST(TokenizerSettings, ANamedFileIsTheOneThatIsRead) {
  const Folder folder;
  folder.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  folder.write("encoder.json", R"({"b": 0, "a": 1, "ab": 2})");
  folder.write("merges.txt", "a b\n");
  EXPECT_THAT(Tokenizer::load(folder / "encoder.json").encode("a"), ElementsAre(1));
  EXPECT_THAT(Tokenizer::load(folder / "vocab.json").encode("a"), ElementsAre(0));
}

TEST(TokenizerSettings, TokenizerJsonComesBeforeAModelThatIsAnother) {
  const Folder folder;
  folder.write("vocab.txt", pieces());
  folder.config({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  folder.write("tokenizer.model", "not looked at");
  folder.write("tokenizer.json", tokenizer_json(Tokenizer::from_bytes(pieces(), "x")));
  EXPECT_THAT(folder.open().encode("The"), ElementsAre(5));
  std::filesystem::remove(folder / "tokenizer.model");
  folder.write("tokenizer.json", R"({"model": {"type": "Unigram", "vocab": [["a", -1.0]]}})");
  EXPECT_THAT(test::error_of([&] { folder.open(); }),
              AllOf(HasSubstr("\"Unigram\", as SentencePiece has it"), HasSubstr("with --tokenizer")));
}

}  // namespace
}  // namespace comera::data
