#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "data/tokenizers/json_parts.h"
#include "data/tokenizers/models/wordpiece.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/hash.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::data {

namespace {

using JsonValue = TokenizerJsonValue;

constexpr std::int64_t largest_file = std::int64_t{256} << 20;  // about fifty times the largest in use

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

std::string read_file(const std::filesystem::path& path) {
  return storage::read_small_file(
      path, largest_file, "a tokenizer, a SentencePiece model, WordPiece's vocab.txt or a tokenizer.json");
}

// An object, or null if the file does not exist.
JsonValue read_object(const std::filesystem::path& path) {
  if (!is_there(path)) return nullptr;
  JsonValue json = storage::parse_json(read_file(path), path.string() + ":");
  if (!json.is_object()) tokenizer_is_damaged(path.string(), "it is not a JSON object");
  return json;
}

// transformers' names of special tokens, in its order.
constexpr const char* roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};

enum class Family : std::uint8_t { bert, roberta, generic };

struct KnownClass {
  const char* name;
  Family kind;
};
// Class names in transformers, without "Fast" at the end. Other classes have their own tokenization.
constexpr KnownClass known_classes[] = {
    {"BertTokenizer", Family::bert},        {"DistilBertTokenizer", Family::bert},
    {"ElectraTokenizer", Family::bert},     {"MobileBertTokenizer", Family::bert},
    {"ConvBertTokenizer", Family::bert},    {"SqueezeBertTokenizer", Family::bert},
    {"LayoutLMTokenizer", Family::bert},    {"LxmertTokenizer", Family::bert},
    {"RobertaTokenizer", Family::roberta},  {"LongformerTokenizer", Family::roberta},
    {"BartTokenizer", Family::roberta},     {"PreTrainedTokenizer", Family::generic},
    {"TokenizersBackend", Family::generic},
};

// The content of a token that is given as a text or as an object with its flags.
std::string content_of(const JsonValue& token) {
  const JsonValue& content = token.is_object() ? member(token, "content") : token;
  return content.is_string() ? content.get<std::string>() : std::string();
}

JsonValue token_object(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false},   {"lstrip", false},
          {"rstrip", false},    {"normalized", !special}, {"special", special}};
}

}  // namespace

// The files that define a tokenizer together.
class TokenizerFiles {
 public:
  TokenizerFiles(std::filesystem::path folder, LetterCase letter_case)
      : folder_(std::move(folder)),
        letter_case_(letter_case),
        config_file_(folder_ / "tokenizer_config.json"),
        config_(read_object(config_file_)),
        special_map_(read_object(folder_ / "special_tokens_map.json")),
        added_(read_object(folder_ / "added_tokens.json")) {}

  Tokenizer open() {
    if (is_there(folder_ / "tokenizer.json")) return open_json();
    if (is_there(folder_ / "tokenizer.model")) return open_sentencepiece_alone();
    if (is_there(folder_ / "vocab.txt")) return open_vocab_txt("vocab.txt");
    if (is_there(folder_ / "vocab.json") && is_there(folder_ / "merges.txt"))
      return open_vocab_json("vocab.json");
    throw Error(fmt::format(
        "{}: has no tokenizer: neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt; "
        "give one with --tokenizer",
        folder_.string()));
  }

  Tokenizer open_vocab_txt(const std::string& file_name) {
    const std::string name = (folder_ / file_name).string();
    std::string bytes = read_file(folder_ / file_name);
    const Family of = config_.is_null() ? Family::bert : kind(Family::bert);
    if (of == Family::generic)
      throw Error(
          fmt::format("{}: tokenizer_class = {} wants a tokenizer.json, which is not there; give "
                      "BertTokenizer there if {} is BERT's",
                      config_file_.string(), class_name(), file_name));
    if (of == Family::roberta) refuse_class();
    if (bytes.find('\0') != std::string::npos || !is_utf8(bytes))
      tokenizer_is_damaged(name, "it is not a text with one piece per line");
    const auto [pieces, empty_line] = read_vocab_txt(bytes);
    JsonValue vocabulary = JsonValue::object();
    for (std::size_t id = 0; id < pieces.size(); ++id)
      if (!pieces[id].empty()) vocabulary[pieces[id]] = id;
    keeps_file_ = has_capitals(pieces) == has_capitals_anywhere(pieces);
    if (empty_line >= 0) vocabulary[""] = empty_line;
    file_ = file_name;
    json_ = JsonValue::object();
    const bool bare = config_.is_null() && letter_case_ == LetterCase::guessed;
    if (bare) guess_case(pieces);
    if (letter_case_ != LetterCase::guessed && !config_.is_null() && !bare) refuse_letter_case();
    make_wordpiece_json(std::move(vocabulary));
    Tokenizer tokenizer = finish(name, std::move(bytes));
    if (bare) tokenizer.notes_.insert(tokenizer.notes_.begin(), case_note(name));
    return tokenizer;
  }

  Tokenizer open_vocab_json(const std::string& file_name) {
    refuse_letter_case_if_given();
    file_ = file_name;
    const std::filesystem::path vocabulary = folder_ / file_name;
    JsonValue pieces = read_object(vocabulary);
    if (kind(Family::roberta) != Family::roberta && !(config_.is_null() || class_name() == "GPT2Tokenizer"))
      refuse_class();
    json_ = JsonValue::object();
    make_byte_level_json(std::move(pieces), read_merges());
    require_whole_merges();
    return finish(vocabulary.string() + " with merges.txt", "");
  }

  Tokenizer open_json() {
    file_ = "tokenizer.json";
    const std::filesystem::path path = folder_ / file_;
    std::string bytes = read_file(path);
    json_ = storage::parse_json(bytes, path.string() + ":");
    if (!json_.is_object()) tokenizer_is_damaged(path.string(), "it is not a JSON object");
    if (is_sentencepiece_json(json_)) return open_sentencepiece_json();
    refuse_letter_case_if_given();
    const JsonValue model = member(json_, "model");
    const JsonValue& type = member(model, "type");
    const bool byte_level =
        type == "BPE" || (type.is_null() && model.is_object() && model.contains("merges"));
    const Family of = kind(Family::generic);
    if ((of == Family::bert && byte_level) || (of == Family::roberta && !byte_level))
      throw Error(
          fmt::format("{}: tokenizer_class = {} does not fit the model in tokenizer.json, which is {}; "
                      "transformers would take its pieces for another kind's",
                      config_file_.string(), class_name(), byte_level ? "BPE" : shortened(type)));
    if (of == Family::bert) make_wordpiece_json(member(model, "vocab"));
    if (of == Family::roberta) make_byte_level_json(member(model, "vocab"), member(model, "merges"));
    if (of == Family::generic) take_settings_of_file();
    return finish(path.string(), std::move(bytes));
  }

  // A tokenizer.json alone: files beside it are ignored.
  Tokenizer open_json_alone(const std::string& file_name) {
    refuse_letter_case_if_given();
    file_ = file_name;
    const std::string name = (folder_ / file_name).string();
    std::string bytes = read_file(folder_ / file_name);
    json_ = storage::parse_json(bytes, name + ":");
    if (is_sentencepiece_json(json_)) refuse_sentencepiece_json(name);
    if (json_.contains("comera")) return Tokenizer::from_bytes(std::move(bytes), name);
    config_ = special_map_ = added_ = nullptr;
    take_settings_of_file();
    return finish(name, std::move(bytes));
  }

  bool is_pieces_json(const std::string& file_name) const {
    const JsonValue json =
        storage::parse_json(read_file(folder_ / file_name), (folder_ / file_name).string() + ":");
    return json.is_object() && !json.contains("model") && !json.empty() && json.begin()->is_number_unsigned();
  }

  Tokenizer alone(const std::string& file_name) {
    refuse_letter_case_if_given();
    return Tokenizer::from_bytes(read_file(folder_ / file_name), folder_ / file_name);
  }

  // The folder's other settings must agree with the model.
  Tokenizer open_sentencepiece_alone() {
    Tokenizer tokenizer = alone("tokenizer.model");
    if (added_.is_object() && !added_.empty())
      throw Error(
          fmt::format("{}: adds tokens to tokenizer.model, which is not supported; remove the file to "
                      "continue without them",
                      (folder_ / "added_tokens.json").string()));
    const SpecialIds& ids = tokenizer.special();
    for (const auto& [role, id] : {std::pair{"pad_token", ids.pad},
                                   {"unk_token", ids.unknown},
                                   {"cls_token", ids.cls},
                                   {"sep_token", ids.separator},
                                   {"mask_token", ids.mask}})
      if (const std::string name = name_of(role, ""); !name.empty() && name != tokenizer.piece(id))
        throw Error(fmt::format("{}: {} is {}, but {} in tokenizer.model; correct the one or the other",
                                config_file_.string(), role, shortened(name),
                                shortened(tokenizer.piece(id))));
    return tokenizer;
  }

 private:
  // The class in tokenizer_config.json; otherwise derived from the model's type.
  std::string class_name() const {
    if (const JsonValue& name = member(config_, "tokenizer_class"); name.is_string())
      return name.get<std::string>();
    const JsonValue model = read_object(folder_ / "config.json");
    if (const JsonValue& name = member(model, "tokenizer_class"); name.is_string())
      return name.get<std::string>();
    const JsonValue& type = member(model, "model_type");
    if (type == "bert" || type == "megatron-bert") return "BertTokenizer";
    if (type == "roberta") return "RobertaTokenizer";
    return "";
  }

  Family kind(Family unnamed) const {
    if (const JsonValue& map = member(config_, "auto_map");
        (map.is_object() && map.contains("AutoTokenizer")) || map.is_array())
      throw Error(
          fmt::format("{}: auto_map names a tokenizer with custom code, which is not run; give another one "
                      "with --tokenizer",
                      config_file_.string()));
    std::string name = class_name();
    if (name.empty()) return unnamed;
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    for (const KnownClass& known : known_classes)
      if (name == known.name) return known.kind;
    if (name == "GPT2Tokenizer" && unnamed == Family::roberta) return Family::generic;
    refuse_class();
  }

  [[noreturn]] void refuse_class() const {
    throw Error(
        fmt::format("{}: tokenizer_class = {} tokenizes in a way that is not known here; BertTokenizer, "
                    "RobertaTokenizer and PreTrainedTokenizerFast are, or give another one with --tokenizer",
                    config_file_.string(), class_name()));
  }

  [[noreturn]] void refuse_letter_case() const {
    throw UsageError(
        fmt::format("{}: --lower-case and --keep-case are only for a vocab.txt without a "
                    "tokenizer_config.json; omit them",
                    (folder_ / file_).string()));
  }
  void refuse_letter_case_if_given() const {
    if (letter_case_ != LetterCase::guessed) refuse_letter_case();
  }

  bool flag(const char* key, bool otherwise) const {
    const JsonValue& value = member(config_, key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean())
      throw Error(
          fmt::format("{}: {} = {} is neither true nor false", config_file_.string(), key, shortened(value)));
    return value.get<bool>();
  }

  std::string source(const char* key) const {
    if (!member(config_, key).is_null()) return fmt::format("tokenizer_config.json: {}", key);
    return config_.is_null() ? "BertTokenizer's default"
                             : fmt::format("BertTokenizer's default; tokenizer_config.json has no {}", key);
  }

  static const char* text_of(bool value) { return value ? "true" : "false"; }

  // Versions of transformers interpret these differently.
  void refuse_disputed_keys() const {
    const auto refuse = [&](const char* key) {
      throw Error(fmt::format(
          "{}: {} = {} is not supported, and transformers 5 ignores it; remove it to continue without it",
          config_file_.string(), key, shortened(member(config_, key))));
    };
    if (const JsonValue& words = member(config_, "never_split"); !words.is_null() && !words.empty())
      refuse("never_split");
    if (!flag("do_basic_tokenize", true)) refuse("do_basic_tokenize");
    if (!flag("clean_text", true)) refuse("clean_text");
    if (const JsonValue& prefix = member(config_, "wordpieces_prefix");
        !prefix.is_null() && prefix != JsonValue("##"))
      refuse("wordpieces_prefix");
  }

  void make_wordpiece_json(JsonValue vocabulary) {
    refuse_disputed_keys();
    bool lowercase = flag("do_lower_case", true);
    std::string from = source("do_lower_case");
    if (letter_case_ != LetterCase::guessed) {
      lowercase = letter_case_ == LetterCase::lowered;
      from = guessed_ ? "assumed" : lowercase ? "--lower-case" : "--keep-case";
    }
    const bool chinese = flag("tokenize_chinese_chars", true), strip = flag("strip_accents", lowercase);
    const std::string unknown = name_of("unk_token", "[UNK]");
    settings_ = {{"kind", "WordPiece", file_},
                 {"lowercase", text_of(lowercase), from},
                 {"strip accents", text_of(strip),
                  member(config_, "strip_accents").is_null() ? "as lowercase" : source("strip_accents")},
                 {"ideographs apart", text_of(chinese), source("tokenize_chinese_chars")}};
    require_pre_tokenizer("BertPreTokenizer");
    json_["normalizer"] = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", chinese},
                           {"strip_accents", strip},
                           {"lowercase", lowercase}};
    json_["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    json_["model"] = {{"type", "WordPiece"},
                      {"unk_token", unknown},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", std::move(vocabulary)}};
    take_tokens({{"unk_token", "[UNK]"},
                 {"sep_token", "[SEP]"},
                 {"pad_token", "[PAD]"},
                 {"cls_token", "[CLS]"},
                 {"mask_token", "[MASK]"}});
  }

  void make_byte_level_json(JsonValue vocabulary, JsonValue merges) {
    const bool prefix = flag("add_prefix_space", false);
    settings_ = {{"kind", "byte-level BPE", file_},
                 {"space before a text", text_of(prefix),
                  member(config_, "add_prefix_space").is_null() ? "RobertaTokenizer's default"
                                                                : source("add_prefix_space")}};
    require_pre_tokenizer("ByteLevel");
    json_["normalizer"] = nullptr;
    json_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}};
    json_["model"] = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
    if (kind(Family::roberta) == Family::roberta) {
      pair_separators_ = 2;
      settings_.push_back({"separators in a pair", "2", "RobertaTokenizer"});
    }
    take_tokens({{"bos_token", "<s>"},
                 {"eos_token", "</s>"},
                 {"unk_token", "<unk>"},
                 {"sep_token", "</s>"},
                 {"pad_token", "<pad>"},
                 {"cls_token", "<s>"},
                 {"mask_token", "<mask>"}});
  }

  // A truncated merges.txt leaves pieces that their parts would form, but that no merge makes.
  void require_whole_merges() const {
    const JsonValue& vocabulary = member(member(json_, "model"), "vocab");
    std::set<std::string> made;
    for (const JsonValue& merge : member(member(json_, "model"), "merges")) {
      std::string piece = merge.get<std::string>();
      piece.erase(std::min(piece.find(' '), piece.size()), 1);
      made.insert(std::move(piece));
    }
    for (const JsonValue& token : json_["added_tokens"]) made.insert(token["content"].get<std::string>());
    std::vector<std::string> lacking;
    for (const auto& [piece, id] : vocabulary.items())
      if (!made.contains(piece) && has_parts(piece, vocabulary)) lacking.push_back(piece);
    if (!lacking.empty())
      throw Error(fmt::format(
          "{}: no merge makes {}{}, so the file was cut short or belongs to another model; get it again, or "
          "list the pieces in added_tokens.json if they were added",
          (folder_ / "merges.txt").string(), shortened(lacking.front()),
          lacking.size() > 1 ? fmt::format(" and {} more pieces of vocab.json", lacking.size() - 1) : ""));
  }
  static bool has_parts(const std::string& piece, const JsonValue& vocabulary) {
    std::size_t at = 0;
    for (next_character(piece, at); at < piece.size(); next_character(piece, at))
      if (vocabulary.contains(piece.substr(0, at)) && vocabulary.contains(piece.substr(at))) return true;
    return false;
  }

  // transformers would replace the file's by another one.
  void require_pre_tokenizer(const char* type) const {
    const JsonValue& found = member(member(json_, "pre_tokenizer"), "type");
    if (!found.is_null() && found != JsonValue(type))
      throw Error(fmt::format(
          "{}: its pre_tokenizer is {}, but tokenizer_class = {} in {} means {}; give "
          "PreTrainedTokenizerFast there if tokenizer.json is right",
          (folder_ / file_).string(), shortened(found), class_name(), config_file_.string(), type));
  }

  // tokenizer.json defines how text is processed; the other files add tokens and names.
  void take_settings_of_file() {
    const JsonValue &normalizer = member(json_, "normalizer"), &model = member(json_, "model");
    settings_ = {{"kind", content_of(member(model, "type")), file_}};
    for (const char* key : {"lowercase", "strip_accents", "handle_chinese_chars", "clean_text"})
      if (!member(normalizer, key).is_null())
        settings_.push_back({key, shortened(member(normalizer, key)), file_ + ": normalizer." + key});
    read_post_processor(member(json_, "post_processor"));
    take_tokens({});
  }

  void read_post_processor(const JsonValue& processor) {
    const JsonValue& type = member(processor, "type");
    if (type == "Sequence") {
      for (const JsonValue& part : member(processor, "processors")) read_post_processor(part);
    } else if (type == "RobertaProcessing") {
      pair_separators_ = 2;
    } else if (type == "TemplateProcessing") {
      // [CLS] A [SEP] B [SEP], possibly with another separator in the middle.
      if (const JsonValue& pair = member(processor, "pair"); pair.is_array() && pair.size() == 6)
        pair_separators_ = 2;
    }
    if (pair_separators_ == 2 && settings_.back().name != "separators in a pair")
      settings_.push_back({"separators in a pair", "2", file_ + ": post_processor"});
  }

  // The name of a special token: from the files, or the class's default.
  std::string name_of(const char* role, const std::string& otherwise) const {
    const bool legacy = !config_.is_object() || !config_.contains("added_tokens_decoder");
    if (legacy)
      if (std::string name = content_of(member(special_map_, role)); !name.empty()) return name;
    if (std::string name = content_of(member(config_, role)); !name.empty()) return name;
    return otherwise;
  }

  // Added tokens and special ones, in transformers' order and with its ids.
  void take_tokens(const std::map<std::string, std::string>& defaults);
  std::vector<std::pair<std::optional<std::int64_t>, JsonValue>> listed_tokens() const;
  std::vector<JsonValue> extra_special_tokens() const;

  JsonValue read_merges() const {
    JsonValue merges = JsonValue::array();
    const std::string text = read_file(folder_ / "merges.txt");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
      begin = end + 1;
    }
    return merges;
  }

  void guess_case(const std::vector<std::string>& pieces) {
    capitals_ = has_capitals(pieces);
    letter_case_ = capitals_ ? LetterCase::kept : LetterCase::lowered;
    guessed_ = true;
  }
  std::string case_note(const std::string& name) const {
    return fmt::format(
        "{}: no tokenizer_config.json lies beside it; text is {}, since {} of its pieces has a capital "
        "letter; {}, or "
        "do_lower_case in such a file, says otherwise",
        name, capitals_ ? "taken as it is" : "taken in lower case and without accents",
        capitals_ ? "one" : "none", capitals_ ? "--lower-case" : "--keep-case");
  }

  // Our exports have both files, and the model contains more.
  Tokenizer open_sentencepiece_json() {
    const std::filesystem::path model = folder_ / "tokenizer.model";
    if (!is_there(model)) refuse_sentencepiece_json((folder_ / file_).string());
    Tokenizer tokenizer = alone("tokenizer.model");
    JsonValue ours;
    try {
      ours = JsonValue::parse(tokenizer_json(tokenizer));
    } catch (const Error&) {  // the model normalises text
    }
    for (const char* part : {"model", "normalizer", "pre_tokenizer", "added_tokens"})
      if (with_merges_as_pairs(member(ours, part)) != with_merges_as_pairs(member(json_, part)))
        throw Error(fmt::format(
            "{}: its {} differs from tokenizer.model beside it, and transformers takes the first; give the "
            "right one with --tokenizer, or take one of the files away",
            (folder_ / file_).string(), part));
    return tokenizer;
  }
  // Merges are written in two formats.
  static JsonValue with_merges_as_pairs(JsonValue part) {
    if (!member(part, "merges").is_array()) return part;
    for (JsonValue& merge : part["merges"])
      if (merge.is_string()) {
        const auto text = merge.get<std::string>();
        const std::size_t space = text.find(' ');
        if (space != std::string::npos) merge = {text.substr(0, space), text.substr(space + 1)};
      }
    return part;
  }
  [[noreturn]] void refuse_sentencepiece_json(const std::string& name) const {
    throw Error(fmt::format(
        "{}: its model is {}, as SentencePiece has it, which is read from tokenizer.model only; give "
        "that file of the folder that it was made of, or the checkpoint, with --tokenizer",
        name, shortened(member(member(json_, "model"), "type"))));
  }

  Tokenizer finish(const std::string& name, std::string bytes);

  std::filesystem::path folder_;
  LetterCase letter_case_;
  bool guessed_ = false, capitals_ = false;
  std::filesystem::path config_file_;
  JsonValue config_, special_map_, added_;
  std::string file_;
  JsonValue json_;  // the combined result: a tokenizer.json
  std::vector<TokenizerSetting> settings_;
  int pair_separators_ = 1;
  bool keeps_file_ = true;            // keeps the file itself, if it contains everything
  std::vector<std::string> missing_;  // special tokens added after the pieces
};

std::vector<std::pair<std::optional<std::int64_t>, JsonValue>> TokenizerFiles::listed_tokens() const {
  std::map<std::int64_t, JsonValue> by_id;
  const JsonValue& decoder = member(config_, "added_tokens_decoder");
  if (!decoder.is_null()) {
    for (const auto& [key, token] : decoder.items()) {
      if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos ||
          !token.is_object())
        tokenizer_is_damaged(config_file_.string(), "added_tokens_decoder has no token for each id");
      by_id[std::stol(key)] = token;
    }
  } else {
    std::set<std::string> special;
    for (const char* role : roles) special.insert(name_of(role, ""));
    for (const JsonValue& token : extra_special_tokens()) special.insert(content_of(token));
    for (const auto& [content, id] : added_.items()) {
      if (!id.is_number_unsigned())
        tokenizer_is_damaged((folder_ / "added_tokens.json").string(),
                             fmt::format("the id of {} is not a number", shortened(content)));
      by_id[id.get<std::int64_t>()] = token_object(content, special.contains(content));
    }
    if (kind(Family::generic) != Family::generic)
      for (const JsonValue& token : member(json_, "added_tokens"))
        if (const JsonValue& id = member(token, "id"); id.is_number_unsigned())
          by_id[id.get<std::int64_t>()] = token;
  }
  return {by_id.begin(), by_id.end()};
}

std::vector<JsonValue> TokenizerFiles::extra_special_tokens() const {
  const bool legacy = member(config_, "added_tokens_decoder").is_null();
  std::vector<JsonValue> tokens;
  const auto take = [&](const JsonValue& list) {
    if (list.is_array()) tokens.insert(tokens.end(), list.begin(), list.end());
  };
  const JsonValue& extra = member(config_, "extra_special_tokens");
  take(extra.is_array() && !extra.empty() ? extra : member(config_, "additional_special_tokens"));
  if (legacy)
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"})
      take(member(special_map_, key));
  if (extra.is_object())
    for (const JsonValue& token : extra) tokens.push_back(token);
  return tokens;
}

void TokenizerFiles::take_tokens(const std::map<std::string, std::string>& defaults) {
  const JsonValue& vocabulary = member(member(json_, "model"), "vocab");
  JsonValue list = JsonValue::array();
  std::map<std::string, std::size_t> places;  // in the list
  std::int64_t largest = -1;
  const auto add = [&](JsonValue token, std::optional<std::int64_t> given, const std::string& file) {
    if (!token.is_object()) tokenizer_is_damaged(file, "an added token is not an object with a content");
    const std::string content = content_of(token);
    if (content.empty()) return;
    const auto place = places.find(content);
    std::int64_t id = next_added_id(std::ssize(vocabulary), largest);
    if (const auto known = vocabulary.find(content); known != vocabulary.end())
      id = known->is_number_unsigned() ? known->get<std::int64_t>() : -1;
    else if (place != places.end())
      id = list[place->second]["id"].get<std::int64_t>();
    if (given && *given != id)
      throw Error(fmt::format(
          "{}: {} has the id {} there, but {} by its place among the pieces, which is the one that "
          "transformers gives it; correct the one or the other",
          file, shortened(content), *given, id));
    largest = std::max(largest, id);
    token["id"] = id;
    token["content"] = content;
    if (place != places.end()) {
      list[place->second] = std::move(token);
    } else {
      places[content] = list.size();
      list.push_back(std::move(token));
    }
  };
  if (defaults.empty())  // those of tokenizer.json first
    for (const JsonValue& token : member(json_, "added_tokens")) {
      const JsonValue& id = member(token, "id");
      add(token, id.is_number_unsigned() ? std::optional(id.get<std::int64_t>()) : std::nullopt,
          (folder_ / file_).string());
    }
  const bool legacy = member(config_, "added_tokens_decoder").is_null();
  for (const auto& [id, token] : listed_tokens())
    add(token, id,
        legacy ? (folder_ / (added_.is_null() ? file_ : "added_tokens.json")).string()
               : config_file_.string());
  JsonValue names = JsonValue::object();
  for (const char* role : roles) {
    const auto otherwise = defaults.find(role);
    const std::string name = name_of(role, otherwise == defaults.end() ? "" : otherwise->second);
    if (name.empty()) continue;
    names[role] = name;
    if (const auto place = places.find(name); place != places.end()) {
      list[place->second]["special"] = true;
      continue;
    }
    if (!vocabulary.contains(name)) missing_.push_back(name);
    add(token_object(name, true), std::nullopt, "");
  }
  for (const JsonValue& token : extra_special_tokens())
    if (!places.contains(content_of(token)))
      add(token.is_object() ? token : token_object(content_of(token), true), std::nullopt, "");
  for (JsonValue& token : list) token.erase("__type");
  json_["added_tokens"] = std::move(list);
  json_["comera"] = {{"special_tokens", names}, {"pair_separators", pair_separators_}};
}

Tokenizer TokenizerFiles::finish(const std::string& name, std::string bytes) {
  for (const char* part : {"truncation", "padding", "post_processor", "decoder"}) json_.erase(part);
  const auto made = [&] {
    return Tokenizer::from_bytes(json_.dump(-1, ' ', false, JsonValue::error_handler_t::replace), name);
  };
  Tokenizer tokenizer = made();
  // If the file alone gives the same ids, shards made with it are compatible; if it contains everything, it
  // is kept unchanged.
  const auto gives_the_same_ids = [&](const Tokenizer& other) {
    return other.special() == tokenizer.special() && other.vocabulary() == tokenizer.vocabulary() &&
           other.added_tokens() == tokenizer.added_tokens() &&
           other.model().tokenizer_json() == tokenizer.model().tokenizer_json();
  };
  try {
    Tokenizer by_itself = Tokenizer::from_bytes(std::move(bytes), name);
    if (keeps_file_ && gives_the_same_ids(by_itself)) {
      if (by_itself.pair_separators() == tokenizer.pair_separators()) {
        tokenizer = std::move(by_itself);
      } else {
        json_["comera"]["hash"] = by_itself.hash();
        tokenizer = made();
      }
    }
  } catch (const Error&) {  // it does not, and the others contain the rest
  }
  if (!tokenizer.added_tokens().empty())
    settings_.push_back({"added tokens", fmt::format("{}", tokenizer.added_tokens().size()),
                         "tokenizer.json, added_tokens.json or tokenizer_config.json"});
  if (!missing_.empty())
    tokenizer.notes_.insert(
        tokenizer.notes_.begin(),
        fmt::format("{}: the tokenizer has no {}; added behind its {} pieces, which makes a "
                    "vocabulary of {}",
                    name, fmt::join(missing_, ", "), tokenizer.model().size(), tokenizer.vocabulary()));
  tokenizer.settings_ = std::move(settings_);
  return tokenizer;
}

std::string hash_of_tokenizer_file(const std::filesystem::path& file) {
  return storage::hash128(read_file(file)).hex();
}

Tokenizer load_tokenizer_folder(const std::filesystem::path& folder, LetterCase letter_case) {
  return TokenizerFiles(folder, letter_case).open();
}

Tokenizer Tokenizer::load(const std::filesystem::path& path, LetterCase letter_case) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return load_tokenizer_folder(path, letter_case);
  std::string bytes = read_file(path);
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string::npos && bytes[begin] == '{';
  // Not a SentencePiece model: a run's copy of the tokenizer that it was given, which is used as it is.
  if (path.filename() == "tokenizer.model" && open_sentencepiece(bytes, path.string()) == nullptr)
    return from_bytes(std::move(bytes), path.string());
  const bool vocabulary = !json && open_sentencepiece(bytes, path.string()) == nullptr &&
                          open_wordpiece(bytes, path.string()) != nullptr;
  TokenizerFiles files(path.parent_path(), letter_case);
  const std::string name = path.filename().string();
  if (json && files.is_pieces_json(name)) return files.open_vocab_json(name);
  if (json) return files.open_json_alone(name);
  if (vocabulary) return files.open_vocab_txt(name);
  return files.alone(name);
}

}  // namespace comera::data
