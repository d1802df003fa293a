#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::data {

namespace {

using Json = nlohmann::json;  // finds members in logarithmic time

constexpr std::int64_t largest_file = std::int64_t{256} << 20;

[[noreturn]] void damaged(const std::string& name, const std::string& what) {
  throw Error(fmt::format("{}: is damaged: {}; get the file anew", name, what));
}

Json parse(const std::string& bytes, const std::string& name) {
  return storage::parse_json(bytes, name + ":");
}

std::string shortened(const Json& value) {
  constexpr std::size_t longest = 60;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

// Null if there is no such member.
const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

// A tokenizer.json, of which what this program does not do is refused.
class TokenizerJson {
 public:
  TokenizerJson(const Json& json, const std::string& name)
      : json_(json), name_(name), model_(member(json, "model")) {}

  std::unique_ptr<PieceModel> open() const {
    if (!model_.is_object()) damaged(name_, "it has no model");
    const Json& type = member(model_, "type");
    // Older files do not say the type.
    if (type == "WordPiece" ||
        (type.is_null() && model_.contains("continuing_subword_prefix") && !model_.contains("merges")))
      return open_wordpiece_of_bert();
    if (type == "BPE" || (type.is_null() && model_.contains("merges"))) return open_byte_level();
    refuse("model", "type", type);
  }

 private:
  [[noreturn]] void refuse(const std::string& section, const char* key, const Json& value) const {
    throw Error(
        fmt::format("{}: its {} has {} = {}, which is not supported; what is supported are byte-level BPE as "
                    "RoBERTa has it, and WordPiece as BERT has it",
                    name_, section, key, shortened(value)));
  }
  // Refuses what is not one of these values; a missing one is null.
  void require(const Json& object, const std::string& section, const char* key,
               const std::vector<Json>& allowed) const {
    const Json& value = member(object, key);
    if (std::ranges::find(allowed, value) == allowed.end()) refuse(section, key, value);
  }

  std::unique_ptr<PieceModel> open_byte_level() const {
    const Json &normalizer = member(json_, "normalizer"), &mask = member(normalizer, "content");
    if (!normalizer.is_null() && !(mask.is_string() && normalizer == Json(space_before_mask(mask))))
      refuse("normalizer", "type", member(normalizer, "type"));
    const Json& level = member(json_, "pre_tokenizer");
    require(level, "pre_tokenizer", "type", {"ByteLevel"});
    require(level, "pre_tokenizer", "use_regex", {nullptr, true});
    require(level, "pre_tokenizer", "add_prefix_space", {true, false});
    require(model_, "model", "dropout", {nullptr});
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      require(model_, "model", key, {nullptr, ""});
    for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"})
      require(model_, "model", key, {nullptr, false});
    ByteLevelBpe parts;
    parts.add_prefix_space = member(level, "add_prefix_space").get<bool>();
    read_pieces(parts.pieces, parts.special);
    read_merges(parts.merges);
    if (const Json& unknown = member(model_, "unk_token"); unknown.is_string())
      parts.unknown = unknown.get<std::string>();
    return make_byte_level_bpe(std::move(parts), name_);
  }

  std::unique_ptr<PieceModel> open_wordpiece_of_bert() const {
    require(model_, "model", "unk_token", {"[UNK]"});
    require(model_, "model", "continuing_subword_prefix", {"##"});
    require(model_, "model", "max_input_chars_per_word", {nullptr, 100});
    require(member(json_, "pre_tokenizer"), "pre_tokenizer", "type", {"BertPreTokenizer"});
    const Json& normalizer = member(json_, "normalizer");
    require(normalizer, "normalizer", "type", {"BertNormalizer"});
    require(normalizer, "normalizer", "clean_text", {true});
    require(normalizer, "normalizer", "handle_chinese_chars", {true});
    std::vector<std::string> pieces;
    std::vector<bool> special;
    read_pieces(pieces, special);
    std::string lines;
    for (const std::string& piece : pieces) {
      if (piece.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
        damaged(name_, "a piece has a line end or a zero byte in it");
      lines += piece + "\n";
    }
    std::unique_ptr<PieceModel> opened = open_wordpiece(lines, name_);
    if (opened == nullptr) damaged(name_, "it has no piece [UNK]");
    const bool lowers = opened->tokenizer_json()["normalizer"]["lowercase"].get<bool>();
    if (member(normalizer, "lowercase") != Json(lowers))
      throw Error(fmt::format(
          "{}: its normalizer has lowercase = {}, which is not supported for these pieces, of which {} a "
          "capital letter",
          name_, shortened(member(normalizer, "lowercase")), lowers ? "none has" : "some have"));
    require(normalizer, "normalizer", "strip_accents", {nullptr, lowers});
    return opened;
  }

  // The pieces by their ids, those of the model and those that were added, and which no text gives.
  void read_pieces(std::vector<std::string>& pieces, std::vector<bool>& special) const {
    const Json& vocabulary = member(model_, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty())
      damaged(name_, "its model has no vocab, an object with an id for each piece");
    const Json& tokens = member(json_, "added_tokens");
    if (!tokens.is_null() && !tokens.is_array()) damaged(name_, "its added_tokens are no list");
    std::map<std::string, const Json*> ids;
    for (const auto& [piece, id] : vocabulary.items()) ids.emplace(piece, &id);
    std::vector<const std::string*> added;
    for (const Json& token : tokens) {
      const Json& content = member(token, "content");
      if (!content.is_string()) damaged(name_, "an added token has no content, a text");
      const auto& piece = content.get_ref<const std::string&>();
      require(token, fmt::format("added token {}", shortened(piece)), "special", {true});
      const Json& id = member(token, "id");
      const auto [place, fresh] = ids.emplace(piece, &id);
      if (!fresh && *place->second != id) damaged(name_, fmt::format("{} has two ids", shortened(piece)));
      added.push_back(&place->first);
    }
    pieces.assign(ids.size(), "");
    special.assign(ids.size(), false);
    std::vector<bool> taken(ids.size());
    for (const auto& [piece, id] : ids) {
      const std::size_t place = id_of(*id, piece, ids.size());
      if (taken[place]) damaged(name_, fmt::format("two pieces have the id {}", place));
      taken[place] = true;
      pieces[place] = piece;
    }
    for (const std::string* piece : added) special[ids.at(*piece)->get<std::size_t>()] = true;
  }

  std::size_t id_of(const Json& id, const std::string& piece, std::size_t count) const {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= count)
      damaged(name_, fmt::format("the id of {} is {}, but its {} pieces must have the ids 0 to {}",
                                 shortened(piece), shortened(id), count, count - 1));
    return id.get<std::size_t>();
  }

  void read_merges(std::vector<std::pair<std::string, std::string>>& merges) const {
    const Json& list = member(model_, "merges");
    if (!list.is_array()) damaged(name_, "its model has no merges, a list");
    for (const Json& merge : list) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const std::string text = merge.is_string() ? merge.get<std::string>() : "";
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        damaged(name_, fmt::format("its merge {} is not of two pieces", shortened(merge)));
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
  }

  const Json& json_;
  const std::string& name_;
  const Json& model_;
};

std::string read_file(const std::filesystem::path& path) {
  return storage::read_small_file(path, largest_file, "a part of a tokenizer");
}

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

// vocab.json and merges.txt, which older folders have, as one tokenizer.json.
std::string joined_files(const std::filesystem::path& folder) {
  const std::filesystem::path vocabulary = folder / "vocab.json", config = folder / "tokenizer_config.json";
  const Json pieces = parse(read_file(vocabulary), vocabulary.string());
  if (!pieces.is_object()) damaged(vocabulary.string(), "it is no object with an id for each piece");
  Json added = Json::array(), merges = Json::array();
  for (const char* name : {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"})
    if (pieces.contains(name)) added.push_back({{"id", pieces[name]}, {"content", name}, {"special", true}});
  const std::string text = read_file(folder / "merges.txt");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
    begin = end + 1;
  }
  Json prefix = false;
  if (is_there(config))
    if (const Json given = parse(read_file(config), config.string()); given.is_object())
      prefix = given.value("add_prefix_space", prefix);
  const Json json = {{"added_tokens", added},
                     {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix}}},
                     {"model", {{"type", "BPE"}, {"vocab", pieces}, {"merges", merges}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::unique_ptr<PieceModel> open_tokenizer_json(const std::string& bytes, const std::string& name) {
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || bytes[begin] != '{') return nullptr;
  const Json json = parse(bytes, name);
  return TokenizerJson(json, name).open();
}

Tokenizer load_tokenizer_folder(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json", "vocab.txt"})
    if (is_there(folder / name)) return Tokenizer::from_bytes(read_file(folder / name), folder / name);
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt"))
    return Tokenizer::from_bytes(joined_files(folder), folder / "vocab.json with merges.txt");
  throw Error(fmt::format(
      "{}: has no tokenizer: neither tokenizer.json nor vocab.txt, nor vocab.json with merges.txt; "
      "give one with --tokenizer",
      folder.string()));
}

}  // namespace comera::data
