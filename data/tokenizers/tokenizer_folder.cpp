#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/tokenizers/json_parts.h"
#include "data/tokenizers/listed_tokens.h"
#include "data/tokenizers/models/wordpiece.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_config.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/hash.h"
#include "storage/json_file.h"

namespace comera::data {

namespace {

using JsonValue = TokenizerJsonValue;

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

}  // namespace

// The files that define a tokenizer together.
class TokenizerFiles {
 public:
  TokenizerFiles(std::filesystem::path folder, LetterCase letter_case)
      : folder_(std::move(folder)), letter_case_(letter_case), config_(folder_) {}

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
    std::string bytes = read_tokenizer_file(folder_ / file_name);
    const bool named = config_.is_there() || config_.class_name().starts_with("MPNetTokenizer");
    const TokenizerFamily of = named ? config_.family(TokenizerFamily::bert) : TokenizerFamily::bert;
    if (of == TokenizerFamily::generic)
      throw Error(
          fmt::format("{}: tokenizer_class = {} wants a tokenizer.json, which is not there; give "
                      "BertTokenizer there if {} is BERT's",
                      config_.file().string(), config_.class_name(), file_name));
    if (of == TokenizerFamily::roberta) config_.refuse_class();
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
    const bool bare = !config_.is_there() && letter_case_ == LetterCase::guessed;
    if (bare) guess_case(pieces);
    if (letter_case_ != LetterCase::guessed && config_.is_there() && !bare) refuse_letter_case();
    make_wordpiece_json(std::move(vocabulary), of);
    Tokenizer tokenizer = finish(name, std::move(bytes));
    if (bare) tokenizer.notes_.insert(tokenizer.notes_.begin(), case_note(name));
    return tokenizer;
  }

  Tokenizer open_vocab_json(const std::string& file_name) {
    refuse_letter_case_if_given();
    file_ = file_name;
    const std::filesystem::path vocabulary = folder_ / file_name;
    JsonValue pieces = read_tokenizer_object(vocabulary);
    if (config_.family(TokenizerFamily::roberta) != TokenizerFamily::roberta &&
        !(!config_.is_there() || config_.class_name() == "GPT2Tokenizer"))
      config_.refuse_class();
    json_ = JsonValue::object();
    make_byte_level_json(std::move(pieces), read_merges());
    require_whole_merges();
    return finish(vocabulary.string() + " with merges.txt", "");
  }

  Tokenizer open_json() {
    file_ = "tokenizer.json";
    const std::filesystem::path path = folder_ / file_;
    std::string bytes = read_tokenizer_file(path);
    json_ = storage::parse_json(bytes, path.string() + ":");
    if (!json_.is_object()) tokenizer_is_damaged(path.string(), "it is not a JSON object");
    if (is_sentencepiece_json(json_)) return open_sentencepiece_json();
    refuse_letter_case_if_given();
    const JsonValue model = member(json_, "model");
    const JsonValue& type = member(model, "type");
    const bool byte_level =
        type == "BPE" || (type.is_null() && model.is_object() && model.contains("merges"));
    const TokenizerFamily of = config_.family(TokenizerFamily::generic);
    const bool wordpiece = of == TokenizerFamily::bert || of == TokenizerFamily::mpnet;
    if ((wordpiece && byte_level) || (of == TokenizerFamily::roberta && !byte_level))
      throw Error(
          fmt::format("{}: tokenizer_class = {} does not fit the model in tokenizer.json, which is {}; "
                      "transformers would take its pieces for another kind's",
                      config_.file().string(), config_.class_name(), byte_level ? "BPE" : shortened(type)));
    if (wordpiece) make_wordpiece_json(member(model, "vocab"), of);
    if (of == TokenizerFamily::roberta) make_byte_level_json(member(model, "vocab"), member(model, "merges"));
    if (of == TokenizerFamily::generic) take_settings_of_file();
    return finish(path.string(), std::move(bytes));
  }

  // A tokenizer.json alone: files beside it are ignored.
  Tokenizer open_json_alone(const std::string& file_name) {
    refuse_letter_case_if_given();
    file_ = file_name;
    const std::string name = (folder_ / file_name).string();
    std::string bytes = read_tokenizer_file(folder_ / file_name);
    json_ = storage::parse_json(bytes, name + ":");
    if (is_sentencepiece_json(json_)) refuse_sentencepiece_json(name);
    if (json_.contains("comera")) return Tokenizer::from_bytes(std::move(bytes), name);
    config_.forget();
    take_settings_of_file();
    return finish(name, std::move(bytes));
  }

  bool is_pieces_json(const std::string& file_name) const {
    const JsonValue json =
        storage::parse_json(read_tokenizer_file(folder_ / file_name), (folder_ / file_name).string() + ":");
    return json.is_object() && !json.contains("model") && !json.empty() && json.begin()->is_number_unsigned();
  }

  Tokenizer alone(const std::string& file_name) {
    refuse_letter_case_if_given();
    return Tokenizer::from_bytes(read_tokenizer_file(folder_ / file_name), folder_ / file_name);
  }

  // The folder's other settings must agree with the model.
  Tokenizer open_sentencepiece_alone() {
    Tokenizer tokenizer = alone("tokenizer.model");
    if (config_.added().is_object() && !config_.added().empty())
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
      if (const std::string name = config_.name_of(role, ""); !name.empty() && name != tokenizer.piece(id))
        throw Error(fmt::format("{}: {} is {}, but {} in tokenizer.model; correct the one or the other",
                                config_.file().string(), role, shortened(name),
                                shortened(tokenizer.piece(id))));
    return tokenizer;
  }

 private:
  [[noreturn]] void refuse_letter_case() const {
    throw UsageError(
        fmt::format("{}: --lower-case and --keep-case are only for a vocab.txt without a "
                    "tokenizer_config.json; omit them",
                    (folder_ / file_).string()));
  }
  void refuse_letter_case_if_given() const {
    if (letter_case_ != LetterCase::guessed) refuse_letter_case();
  }

  static const char* text_of(bool value) { return value ? "true" : "false"; }

  void make_wordpiece_json(JsonValue vocabulary, TokenizerFamily of) {
    config_.refuse_disputed_keys();
    bool lowercase = config_.flag("do_lower_case", true);
    std::string from = config_.source("do_lower_case", of);
    if (letter_case_ != LetterCase::guessed) {
      lowercase = letter_case_ == LetterCase::lowered;
      from = guessed_ ? "assumed" : lowercase ? "--lower-case" : "--keep-case";
    }
    const bool chinese = config_.flag("tokenize_chinese_chars", true),
               strip = config_.flag("strip_accents", lowercase);
    const std::string unknown = config_.name_of("unk_token", "[UNK]");
    settings_ = {{"kind", "WordPiece", file_},
                 {"lowercase", text_of(lowercase), from},
                 {"strip accents", text_of(strip),
                  !config_.has("strip_accents") ? "as lowercase" : config_.source("strip_accents", of)},
                 {"ideographs apart", text_of(chinese), config_.source("tokenize_chinese_chars", of)}};
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
    if (of == TokenizerFamily::mpnet) {
      take_two_separators("MPNetTokenizer");
      return take_tokens({{"bos_token", "<s>"},
                          {"eos_token", "</s>"},
                          {"unk_token", "[UNK]"},
                          {"sep_token", "</s>"},
                          {"pad_token", "<pad>"},
                          {"cls_token", "<s>"},
                          {"mask_token", "<mask>"}});
    }
    take_tokens({{"unk_token", "[UNK]"},
                 {"sep_token", "[SEP]"},
                 {"pad_token", "[PAD]"},
                 {"cls_token", "[CLS]"},
                 {"mask_token", "[MASK]"}});
  }

  void take_two_separators(const char* source) {
    pair_separators_ = 2;
    settings_.push_back({"separators in a pair", "2", source});
  }

  void make_byte_level_json(JsonValue vocabulary, JsonValue merges) {
    const bool prefix = config_.flag("add_prefix_space", false);
    settings_ = {{"kind", "byte-level BPE", file_},
                 {"space before a text", text_of(prefix),
                  !config_.has("add_prefix_space") ? "RobertaTokenizer's default"
                                                   : config_.source("add_prefix_space")}};
    require_pre_tokenizer("ByteLevel");
    json_["normalizer"] = nullptr;
    json_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}};
    json_["model"] = {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
    if (config_.family(TokenizerFamily::roberta) == TokenizerFamily::roberta)
      take_two_separators("RobertaTokenizer");
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
          (folder_ / file_).string(), shortened(found), config_.class_name(), config_.file().string(), type));
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

  void take_tokens(const std::map<std::string, std::string>& defaults) {
    ListedTokens added = listed_tokens_of(config_, json_, file_, defaults);
    json_["added_tokens"] = std::move(added.list);
    json_["comera"] = {{"special_tokens", std::move(added.names)}, {"pair_separators", pair_separators_}};
    missing_ = std::move(added.missing);
    sources_ = std::move(added.sources);
  }

  JsonValue read_merges() const {
    JsonValue merges = JsonValue::array();
    const std::string text = read_tokenizer_file(folder_ / "merges.txt");
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
  TokenizerConfig config_;
  std::string file_;
  JsonValue json_;  // the combined result: a tokenizer.json
  std::vector<TokenizerSetting> settings_;
  int pair_separators_ = 1;
  bool keeps_file_ = true;            // keeps the file itself, if it contains everything
  std::vector<std::string> missing_;  // special tokens added after the pieces
  std::vector<std::string> sources_;  // of the added tokens
};

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
                         fmt::format("{}", fmt::join(sources_, ", "))});
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
  return storage::hash128(read_tokenizer_file(file)).hex();
}

Tokenizer load_tokenizer_folder(const std::filesystem::path& folder, LetterCase letter_case) {
  return TokenizerFiles(folder, letter_case).open();
}

Tokenizer Tokenizer::load(const std::filesystem::path& path, LetterCase letter_case) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return load_tokenizer_folder(path, letter_case);
  std::string bytes = read_tokenizer_file(path);
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
