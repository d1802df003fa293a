// Tokenizers as Hugging Face keeps them: byte-level BPE against ids that the reference implementation gave
// (see tests/oracle/README.md), what is written, and what is refused. check_tokenizer_json.py there puts what
// is written to that implementation.

#include "data/tokenizers/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/tokenizers/models/byte_level_bpe.h"
#include "data/tokenizers/models/sentencepiece_proto.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/text/words.h"
#include "kernels/core/check.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/data/tokenizers/foreign_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string oracle = COMERA_ORACLE;

std::string byte_level_bytes(bool prefixed) {
  std::string bytes = test::read_text(oracle + "/byte_level_bpe.json");
  const std::string key = "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":";
  const std::size_t at = bytes.find(key + "false");
  if (prefixed) bytes.replace(at + key.size(), 5, "true");
  return bytes;
}

Tokenizer byte_level(bool prefixed = false) {
  return Tokenizer::from_bytes(byte_level_bytes(prefixed), "tokenizer.json");
}

struct Case {
  std::string text;
  std::vector<std::int32_t> plain, prefixed;
};

std::vector<std::int32_t> numbers(const std::string& text) {
  std::istringstream ids(text);
  std::vector<std::int32_t> found;
  for (std::int32_t id = 0; ids >> id;) found.push_back(id);
  return found;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> found = [] {
    std::vector<Case> read;
    std::ifstream file(oracle + "/byte_level_bpe_cases.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json row = json::parse(line);
      read.push_back({row["text"], numbers(row["plain"]), numbers(row["prefixed"])});
    }
    return read;
  }();
  return found;
}

TEST(ByteLevelBpe, AgreesWithTheReference) {
  ASSERT_GT(cases().size(), 400u);
  for (const bool prefixed : {false, true}) {
    const Tokenizer tokenizer = byte_level(prefixed);
    EXPECT_EQ(tokenizer.restores_text(), !prefixed);
    EXPECT_EQ(tokenizer.vocabulary(), 2001);
    Encoder encoder(tokenizer);
    for (const Case& each : cases()) {
      const std::vector<std::int32_t>& expected = prefixed ? each.prefixed : each.plain;
      EXPECT_EQ(tokenizer.encode(each.text), expected) << each.text;
      std::vector<std::int32_t> cached;
      encoder.encode(each.text, cached);
      EXPECT_EQ(cached, expected) << each.text;
      const bool added = prefixed && !each.text.empty() && each.text[0] != ' ';
      EXPECT_EQ(tokenizer.decode(expected), (added ? " " : "") + each.text);
      for (const std::int32_t id : expected) EXPECT_FALSE(tokenizer.special().contains(id)) << each.text;
    }
  }
}

TEST(ByteLevelBpe, TextIsPartedAsByGpt2) {
  EXPECT_THAT(split_as_gpt2("don't  go\n\n if x1 ==  2 "),
              ElementsAre("don", "'t", " ", " go", "\n\n", " if", " x", "1", " ==", " ", " 2", " "));
  EXPECT_THAT(split_as_gpt2("\u00a0x '' 's"), ElementsAre("\u00a0", "x", " ''", " '", "s"));
  EXPECT_TRUE(split_as_gpt2("").empty());
}

TEST(ByteLevelBpe, SpecialPiecesAreFoundByTheirNames) {
  const Tokenizer tokenizer = byte_level();
  const SpecialIds& special = tokenizer.special();
  EXPECT_EQ(special, (SpecialIds{.pad = 1, .unknown = 3, .cls = 0, .separator = 2, .mask = 2000}));
  EXPECT_EQ(tokenizer.piece(2000), "<mask>");
  EXPECT_TRUE(tokenizer.notes().empty());
  EXPECT_EQ(tokenizer.text(special.mask).bytes, "");
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{special.cls, special.mask, special.separator}), "");
}

// In the middle of a text, a part has the ids that it has there.
TEST(ByteLevelBpe, EncodesBetweenPieces) {
  for (const bool prefixed : {false, true}) {
    const Tokenizer tokenizer = byte_level(prefixed);
    const std::string whole = "    for i in range(10): don't = values[i]\n\n\treturn caf\u00e9";
    const std::vector<std::int32_t> ids = tokenizer.encode(whole);
    for (std::size_t begin = 0; begin <= ids.size(); ++begin)
      for (std::size_t end = begin; end <= ids.size(); ++end) {
        const std::vector<std::int32_t> part(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                             ids.begin() + static_cast<std::ptrdiff_t>(end));
        const std::string text = tokenizer.decode(part);
        // Half a character cannot be written, and what white space becomes depends on the piece behind.
        if (!is_utf8(text) || (end < ids.size() && text.find_last_of(" \n\t") + 1 == text.size())) continue;
        // Nor can a contraction be told without what is before it.
        if (text.starts_with('\'') && begin == 0) continue;
        EXPECT_EQ(tokenizer.encode_between(text, begin > 0, end < ids.size()), part) << text;
      }
    EXPECT_EQ(tokenizer.encode_between("foo ", false, true).back(), tokenizer.encode("x ").back());
  }
}

TEST(ByteLevelBpe, WordsGoOverPiecesAndPartsOfCharacters) {
  const Tokenizer tokenizer = byte_level();
  const WordTable table(tokenizer);
  const auto words = [&](const std::string& text) {
    std::vector<std::string> found;
    std::int32_t before = -1;
    for (const std::int32_t id : tokenizer.encode(text)) {
      if (before < 0 || !table.joins(before, id)) found.emplace_back();
      found.back() += tokenizer.text(id).bytes;
      before = id;
    }
    return found;
  };
  EXPECT_THAT(words("zebras_quickly2 self.count"), ElementsAre("zebras_quickly2", " self", ".", "count"));
  EXPECT_THAT(words("\u0436\u0443\u043a\u0438 na\u00efvely"),
              ElementsAre("\u0436\u0443\u043a\u0438", " na\u00efvely"));
  EXPECT_THAT(words("\u8a9e\u304b"), ElementsAre("\u8a9e", "\u304b"));
}

// What transformers reads of a file; throws where a part is missing.
void expect_whole(const Tokenizer& tokenizer, const std::string& model) {
  const json file = json::parse(tokenizer_json(tokenizer));
  EXPECT_EQ(file.at("version"), "1.0");
  EXPECT_EQ(file.at("model").at("type"), model);
  const SpecialIds& special = tokenizer.special();
  std::map<std::int32_t, std::string> added;
  for (const json& token : file.at("added_tokens")) {
    const std::int32_t id = token.at("id");
    EXPECT_EQ(token.at("special"), special.contains(id)) << token;
    EXPECT_TRUE(added.empty() || added.rbegin()->first < id);
    added[id] = token.at("content");
    EXPECT_TRUE(!special.contains(id) || added[id] == tokenizer.piece(id)) << token;
  }
  for (const std::int32_t id : {special.pad, special.unknown, special.cls, special.separator, special.mask})
    EXPECT_TRUE(added.contains(id)) << id;
  std::size_t pieces = added.size();
  for (const auto& [piece, id] : added) pieces -= piece < std::ssize(file["model"]["vocab"]);
  EXPECT_EQ(file["model"]["vocab"].size() + pieces, static_cast<std::size_t>(tokenizer.vocabulary()));
  const std::string cls = tokenizer.piece(special.cls), separator = tokenizer.piece(special.separator);
  const json& after = file.at("post_processor");
  EXPECT_EQ(after.at("type"), "TemplateProcessing");
  std::string pair;
  for (const json& part : after.at("pair")) {
    const json& value = *part.begin();
    pair += value.at("id").get<std::string>() + ":" + value.at("type_id").dump() + " ";
  }
  EXPECT_EQ(pair, cls + ":0 A:0 " + separator + ":0 B:1 " + separator + ":1 ");
  EXPECT_EQ(after.at("special_tokens").at(cls).at("ids"), json({special.cls}));
  EXPECT_EQ(json::parse(tokenizer_json(tokenizer, 1))["post_processor"]["pair"][3]["Sequence"]["type_id"], 0);
  EXPECT_FALSE(file.at("decoder").is_null());
  const json config = json::parse(tokenizer_config(tokenizer, 512)),
             names = json::parse(special_tokens_map(tokenizer));
  EXPECT_EQ(config.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(config.at("model_max_length"), 512);
  EXPECT_EQ(config.at("clean_up_tokenization_spaces"), false);
  EXPECT_FALSE(json::parse(tokenizer_config(tokenizer, 0)).contains("model_max_length"));
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(names.at("mask_token"), tokenizer.piece(special.mask));
  for (const auto& [name, piece] : names.items()) EXPECT_EQ(config.at(name), piece);
}

TEST(TokenizerJson, OfSentencePieceBpe) {
  const Tokenizer tokenizer = small_tokenizer();
  expect_whole(tokenizer, "BPE");
  const json file = json::parse(tokenizer_json(tokenizer)), &model = file["model"];
  EXPECT_EQ(model["byte_fallback"], true);
  EXPECT_TRUE(file["pre_tokenizer"].is_null());
  // The mask takes the one space before it, and nothing else changes.
  EXPECT_EQ(
      file["normalizer"],
      json::parse(R"({"type": "Replace", "pattern": {"Regex": "(?<! ) \\[MASK\\]"}, "content": "[MASK]"})"));
  for (const json& token : file["added_tokens"]) EXPECT_EQ(token["normalized"], token["content"] == "[MASK]");
  // Line end and tab are found in text before all others.
  std::vector<std::string> found;
  for (const json& token : file["added_tokens"])
    if (!token["special"].get<bool>()) found.push_back(token["content"]);
  EXPECT_THAT(found, ElementsAre("\n", "\t"));
  EXPECT_TRUE(model["vocab"].contains(" def") || model["vocab"].contains("def"));
  // Pairs stand where the piece that they make does, and the best pieces first.
  std::map<std::string, float> scores;
  for (SentencePieceFile::Piece piece : read_sentencepiece(tokenizer.bytes()).pieces) {
    for (std::size_t at; (at = piece.text.find("\u2581")) != std::string::npos;)
      piece.text.replace(at, 3, " ");
    scores[piece.text] = piece.score;
  }
  float before = 0;
  EXPECT_GT(model["merges"].size(), 200u);
  for (const json& merge : model["merges"]) {
    const std::string joined = merge[0].get<std::string>() + merge[1].get<std::string>();
    ASSERT_TRUE(model["vocab"].contains(joined)) << joined;
    EXPECT_LE(scores.at(joined), before);
    before = scores.at(joined);
  }
  EXPECT_LT(before, -100);
}

TEST(TokenizerJson, OfUnigram) {
  const Tokenizer tokenizer = small_tokenizer(TokenizerModel::unigram);
  expect_whole(tokenizer, "Unigram");
  const json model = json::parse(tokenizer_json(tokenizer))["model"];
  EXPECT_EQ(model["unk_id"], tokenizer.special().unknown);
  EXPECT_EQ(model["byte_fallback"], true);
  double learnt = 0;
  for (const json& entry : model["vocab"])
    if (const double score = entry[1]; score > -1000) learnt = std::min(learnt, score);
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (!tokenizer.text(id).byte && !tokenizer.special().contains(id)) continue;
    const json& entry = model["vocab"][static_cast<std::size_t>(id)];
    EXPECT_LT(entry[1].get<double>(), 100 * learnt) << entry;
  }
}

TEST(TokenizerJson, OfWordPieceIsReadBack) {
  for (const bool cased : {false, true}) {
    const Tokenizer tokenizer =
        Tokenizer::load(oracle + "/wordpiece_" + (cased ? "cased" : "uncased") + "_vocab.txt");
    expect_whole(tokenizer, "WordPiece");
    const std::string text = tokenizer_json(tokenizer);
    EXPECT_EQ(json::parse(text)["normalizer"]["lowercase"], !cased);
    const Tokenizer back = Tokenizer::from_bytes(text, "tokenizer.json");
    EXPECT_EQ(back.vocabulary(), tokenizer.vocabulary());
    for (const Case& each : cases()) EXPECT_EQ(back.encode(each.text), tokenizer.encode(each.text));
    EXPECT_EQ(tokenizer_json(back), text);
  }
  // Special pieces that a vocabulary lacks have ids behind it.
  const Tokenizer bare = Tokenizer::from_bytes("[UNK]\na\n##b\n", "vocab.txt");
  expect_whole(bare, "WordPiece");
  const Tokenizer back = Tokenizer::from_bytes(tokenizer_json(bare), "tokenizer.json");
  EXPECT_EQ(back.special(), bare.special());
  EXPECT_EQ(back.vocabulary(), 7);
}

TEST(TokenizerJson, OfByteLevelBpeIsReadBack) {
  for (const bool prefixed : {false, true}) {
    const Tokenizer tokenizer = byte_level(prefixed);
    expect_whole(tokenizer, "BPE");
    const std::string text = tokenizer_json(tokenizer);
    const Tokenizer back = Tokenizer::from_bytes(text, "tokenizer.json");
    EXPECT_EQ(back.special(), tokenizer.special());
    EXPECT_EQ(back.vocabulary(), tokenizer.vocabulary());
    for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id)
      EXPECT_EQ(back.piece(id), tokenizer.piece(id));
    for (const Case& each : cases()) EXPECT_EQ(back.encode(each.text), tokenizer.encode(each.text));
    EXPECT_EQ(tokenizer_json(back), text);
  }
}

TEST(TokenizerJson, ModelsThatChangeTextHaveNone) {
  EXPECT_THAT(test::error_of([] { tokenizer_json(foreign_tokenizer({})); }),
              HasSubstr("has no tokenizer.json here, since it normalises text"));
  EXPECT_THAT(test::error_of([] {
                tokenizer_json(foreign_tokenizer({{"model_type", "word"}}));
              }),
              HasSubstr("has no tokenizer.json here"));
}

TEST(TokenizerFolder, IsWrittenAndRead) {
  for (const Tokenizer& tokenizer : {small_tokenizer(), byte_level()}) {
    const test::TemporaryFolder folder;
    write_tokenizer_folder(tokenizer, folder.path(), 2, 0);
    std::vector<std::string> names = tokenizer_files();
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_EQ(std::erase(names, entry.path().filename()), 1);
    EXPECT_EQ(names.size(), tokenizer.is_sentencepiece() ? 0u : 1u);
    const Tokenizer back = load_tokenizer_folder(folder.path());
    EXPECT_EQ(back.special(), tokenizer.special());
    for (const Case& each : cases()) EXPECT_EQ(back.encode(each.text), tokenizer.encode(each.text));
  }
}

TEST(TokenizerFolder, AModelThatNormalisesTextLiesThereAlone) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = foreign_tokenizer({});
  EXPECT_THAT(
      write_tokenizer_folder(tokenizer, folder.path(), 2, 0),
      HasSubstr("AutoTokenizer cannot load the tokenizer: this SentencePiece model has no tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "tokenizer.json"));
  EXPECT_EQ(load_tokenizer_folder(folder.path()).bytes(), tokenizer.bytes());
}

TEST(TokenizerFolder, TakesTheFilesOfOlderModels) {
  const json model = json::parse(byte_level_bytes(false))["model"];
  const test::TemporaryFolder folder;
  json vocabulary = model["vocab"];
  vocabulary["<mask>"] = 2000;
  const auto file = folder.write("vocab.json", vocabulary.dump());
  EXPECT_THAT(
      test::error_of([&] { load_tokenizer_folder(folder.path()); }),
      HasSubstr("has no tokenizer: neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt"));
  std::string merges = "#version: 0.2\r\n";
  for (const json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\r\n";
  folder.write("merges.txt", merges);
  const Tokenizer expected = byte_level();
  const Tokenizer tokenizer = load_tokenizer_folder(folder.path());
  EXPECT_EQ(tokenizer.special(), expected.special());
  for (const Case& each : cases()) EXPECT_EQ(tokenizer.encode(each.text), each.plain);
  folder.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  const Tokenizer prefixed = load_tokenizer_folder(folder.path());
  for (const Case& each : cases()) EXPECT_EQ(prefixed.encode(each.text), each.prefixed);
  folder.write("tokenizer_config.json", R"({"add_prefix_space": "yes"})");
  EXPECT_THAT(test::error_of([&] { load_tokenizer_folder(folder.path()); }),
              HasSubstr("add_prefix_space = \"yes\""));
  folder.write("tokenizer_config.json", "[]");
  EXPECT_THAT(test::error_of([&] { load_tokenizer_folder(folder.path()); }),
              HasSubstr("tokenizer_config.json: is damaged: it is not a JSON object"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("vocab.json", "{\"a\": ");
  EXPECT_THAT(
      test::error_of([&] { load_tokenizer_folder(folder.path()); }),
      testing::AllOf(HasSubstr("vocab.json: is damaged: it is not JSON"), HasSubstr("get the file again")));
  folder.write("vocab.txt", "[UNK]\na\n");
  EXPECT_EQ(load_tokenizer_folder(folder.path()).vocabulary(), 6);
  folder.write("tokenizer.json", "{}");
  EXPECT_THAT(test::error_of([&] { load_tokenizer_folder(folder.path()); }),
              HasSubstr("tokenizer.json: is damaged: it has no model"));
}

void expect_refused(const std::string& bytes, const std::string& message) {
  EXPECT_THAT(test::error_of([&] { Tokenizer::from_bytes(bytes, "t.json"); }),
              testing::AllOf(HasSubstr("t.json: "), HasSubstr(message)));
}

// A small byte-level BPE, changed by a patch (RFC 7386, where null removes a member).
std::string patched(const std::string& patch) {
  json file = json::parse(R"({"added_tokens": [{"id": 3, "content": "<mask>", "special": true}],
    "normalizer": false, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  file["normalizer"] = nullptr;
  file.merge_patch(json::parse(patch));
  return file.dump();
}

TEST(TokenizerJson, APieceMayBeAnAddedTokenToo) {
  const Tokenizer tokenizer =
      Tokenizer::from_bytes(patched(R"({"added_tokens": [{"id": 2, "content": "ab", "special": true},
                                   {"id": 0, "content": "a", "special": true}]})"),
                            "t.json");
  const std::vector<std::int32_t> ids = tokenizer.encode("aba");
  EXPECT_EQ(ids, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(tokenizer.decode(ids), "aba");
  EXPECT_EQ(tokenizer.text(2).bytes, "ab");
}

TEST(TokenizerJson, WhatIsNotKnownIsRefusedByName) {
  EXPECT_EQ(Tokenizer::from_bytes(patched("{}"), "t").vocabulary(), 8);
  EXPECT_EQ(Tokenizer::from_bytes(patched(R"({"model": {"type": null}})"), "t").encode("aba"),
            (std::vector<std::int32_t>{2, 0}));
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"normalizer": {"type": "NFC"}})",
       R"(its normalizer has type = "NFC", which is not supported; what is)"},
      {R"({"pre_tokenizer": {"type": "Metaspace"}})", R"(its pre_tokenizer has type = "Metaspace")"},
      {R"({"pre_tokenizer": null})", "its pre_tokenizer has type = null"},
      {R"({"pre_tokenizer": {"use_regex": false}})", "use_regex = false"},
      {R"({"pre_tokenizer": {"add_prefix_space": 1}})", "add_prefix_space = 1"},
      {R"({"model": {"type": "Unigram"}})", R"(its model has type = "Unigram")"},
      {R"({"model": {"type": [1]}})", "its model has type = [1]"},
      {R"({"model": {"dropout": 0.1}})", "dropout = 0.1"},
      {R"({"model": {"byte_fallback": true}})", "byte_fallback = true"},
      {R"({"model": {"ignore_merges": true}})", "ignore_merges = true"},
      {R"({"model": {"fuse_unk": true}})", "fuse_unk = true"},
      {R"({"model": {"end_of_word_suffix": "</w>"}})", R"(end_of_word_suffix = "</w>")"},
      {R"({"added_tokens": [{"id": 3, "content": "xx", "special": "no"}]})",
       R"(its added token "xx" has special = "no")"},
      {R"({"added_tokens": [{"id": 5, "content": "xx"}]})",
       R"(added_tokens: "xx" has the id 5, but tokenizers gives it 3)"},
      {R"({"added_tokens": [{"id": 1, "content": "a"}]})",
       R"(added_tokens: "a" has the id 1, but tokenizers gives it 0)"},
      {R"({"model": {"vocab": {"ab": 3}}, "added_tokens": [{"id": 3, "content": "xx"}]})",
       R"(added_tokens: "xx" has the id 3, which a piece of the model has as well)"},
  };
  for (const auto& [patch, message] : refused) expect_refused(patched(patch), message);
  json bert = json::parse(tokenizer_json(Tokenizer::load(oracle + "/wordpiece_uncased_vocab.txt")));
  for (const auto& [patch, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"normalizer": {"lowercase": 1}})", "its normalizer has lowercase = 1"},
           {R"({"normalizer": {"strip_accents": "no"}})", R"(its normalizer has strip_accents = "no")"},
           {R"({"normalizer": {"type": "Lowercase"}})", R"(its normalizer has type = "Lowercase")"},
           {R"({"pre_tokenizer": {"type": "Whitespace"}})", R"(its pre_tokenizer has type = "Whitespace")"},
           {R"({"model": {"unk_token": "<unk>"}})", "has no piece <unk>"},
           {R"({"model": {"unk_token": 1}})", "its model has unk_token = 1"},
           {R"({"model": {"max_input_chars_per_word": -1}})", "max_input_chars_per_word = -1"}}) {
    json changed = bert;
    changed.merge_patch(json::parse(patch));
    expect_refused(changed.dump(), message);
  }
}

TEST(TokenizerJson, WhatIsDamagedIsRefused) {
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {R"({"model": null})", "it has no model"},
      {R"({"model": [1, 2]})", "it has no model"},
      {R"({"model": {"vocab": null}})", "its model has no vocab"},
      {R"({"model": {"vocab": ["a"]}})", "its model has no vocab"},
      {R"({"model": {"vocab": {"a": "0"}}})", R"(the id of "a" is "0")"},
      {R"({"model": {"vocab": {"a": -1}}})", R"(the id of "a" is -1)"},
      {R"({"model": {"vocab": {"a": 0.5}}})", R"(the id of "a" is 0.5)"},
      {R"({"model": {"vocab": {"a": 1e300}}})", R"(the id of "a" is 1e+300)"},
      {R"({"model": {"vocab": {"a": 18446744073709551615}}})", "is 18446744073709551615, which is not an id"},
      {R"({"model": {"vocab": {"a": 16777216}}})", R"(the id of "a" is 16777216, which is not an id)"},
      {R"({"model": {"vocab": {"a": 1}}})", "two pieces have the id 1"},
      {R"({"model": {"vocab": {"a": {"b": 1}}}})", R"(the id of "a" is {"b":1})"},
      {R"({"model": {"merges": null}})", "its model has no merges"},
      {R"({"model": {"merges": {"a": "b"}}})", "its model has no merges"},
      {R"({"model": {"merges": [1]}})", "its merge 1 is not of two pieces"},
      {R"({"model": {"merges": ["ab"]}})", R"(its merge "ab" is not of two pieces)"},
      {R"({"model": {"merges": ["a b c"]}})", R"(its merge "a b c" is not of two pieces)"},
      {R"({"model": {"merges": [["a"]]}})", R"(its merge ["a"] is not of two pieces)"},
      {R"({"model": {"merges": [["a", 1]]}})", R"(its merge ["a",1] is not of two pieces)"},
      {R"({"model": {"merges": ["b a"]}})", "merges 'b' and 'a'"},
      {R"({"model": {"merges": ["x y"]}})", "merges 'x' and 'y'"},
      {R"({"added_tokens": 7})", "its added_tokens are not a list"},
      {R"({"added_tokens": [7]})", "an added token has no content"},
      {R"({"added_tokens": [{"content": 3, "special": true}]})", "an added token has no content"},
      {R"({"added_tokens": [{"content": "<mask>", "special": true}]})", R"(the id of "<mask>" is null)"},
  };
  for (const auto& [patch, message] : damaged) expect_refused(patched(patch), message);
  const std::string whole = patched("{}");
  for (const auto& [bytes, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "is damaged: it is not JSON"},
           {whole.substr(0, whole.size() / 2), "it is not JSON"},
           {whole + "x", "it is not JSON"},
           {"{\"a\": \"\xff\"}", "it is not JSON"},
           {std::string(100000, '['), "nor is it a WordPiece vocabulary"},
           {"{\"a\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}",
            "it is nested too deeply"},
           {"{\"a\": 1" + std::string(400, '0') + "}", "it is not JSON"}})
    expect_refused(bytes, message);
}

// Whatever byte of a file is wrong: a tokenizer, or an error.
TEST(TokenizerJson, ABrokenByteCrashesNothing) {
  const std::string whole = patched("{}");
  std::int64_t refused = 0, taken = 0;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char byte : {'\0', '"', '{', ']', ',', '9', '-', ' ', 'a', '\\', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = byte;
      try {
        const Tokenizer tokenizer = Tokenizer::from_bytes(bytes, "t.json");
        tokenizer.decode(tokenizer.encode("ab ba<mask>\n\u00e9"));
        tokenizer_json(tokenizer);
        ++taken;
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace comera::data
