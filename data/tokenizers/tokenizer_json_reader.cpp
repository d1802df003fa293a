#include <algorithm>
#include <optional>
#include <set>

#include "data/tokenizers/json_parts.h"
#include "data/tokenizers/models/byte_level_bpe.h"
#include "data/tokenizers/models/wordpiece.h"
#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/json_file.h"

namespace comera::data {

using JsonValue = TokenizerJsonValue;

void tokenizer_is_damaged(const std::string& name, const std::string& what) {
  throw Error(fmt::format("{}: is damaged: {}; get the file again", name, what));
}

std::string shortened(const JsonValue& value) {
  constexpr std::size_t longest = 60;
  const std::string text = value.dump(-1, ' ', false, JsonValue::error_handler_t::replace);
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

const JsonValue& member(const JsonValue& object, const char* key) {
  static const JsonValue nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool is_sentencepiece_json(const JsonValue& json) {
  const JsonValue &model = member(json, "model"), &type = member(model, "type");
  return type == "Unigram" || (type == "BPE" && member(model, "byte_fallback") == JsonValue(true));
}

std::int64_t next_added_id(std::int64_t count, std::int64_t largest) {
  return largest >= count ? largest + 1 : count;
}

namespace {

constexpr std::int64_t most_ids = std::int64_t{1} << 24;

// A tokenizer.json; features that this program does not support are rejected.
class TokenizerJson {
 public:
  TokenizerJson(const JsonValue& json, const std::string& name)
      : json_(json), name_(name), model_(member(json, "model")) {}

  OpenedTokenizer open() const {
    if (!model_.is_object()) tokenizer_is_damaged(name_, "it has no model");
    OpenedTokenizer opened{.model = open_model()};
    opened.added = added_tokens();
    const JsonValue &own = member(json_, "comera"), &names = member(own, "special_tokens");
    const auto name_of = [&](const char* role) {
      const JsonValue& name = member(names, role);
      return name.is_string() ? name.get<std::string>() : std::string();
    };
    opened.special = {.pad = name_of("pad_token"),
                      .unknown = name_of("unk_token"),
                      .cls = name_of("cls_token"),
                      .separator = name_of("sep_token"),
                      .mask = name_of("mask_token")};
    if (member(own, "pair_separators") == JsonValue(2)) opened.pair_separators = 2;
    opened.special_in_text = own.is_object();
    if (const JsonValue& hash = member(own, "hash"); hash.is_string()) opened.hash = hash.get<std::string>();
    return opened;
  }

 private:
  std::unique_ptr<PieceModel> open_model() const {
    const JsonValue& type = member(model_, "type");
    // Older files omit the type.
    if (type == "WordPiece" ||
        (type.is_null() && model_.contains("continuing_subword_prefix") && !model_.contains("merges")))
      return open_wordpiece_of_bert();
    if (type == "BPE" || (type.is_null() && model_.contains("merges"))) return open_byte_level();
    refuse("model", "type", type);
  }

  [[noreturn]] void refuse(const std::string& section, const char* key, const JsonValue& value) const {
    throw Error(
        fmt::format("{}: its {} has {} = {}, which is not supported; what is supported are byte-level BPE as "
                    "RoBERTa has it, and WordPiece as BERT has it",
                    name_, section, key, shortened(value)));
  }
  // Rejects all other values; a missing one is null.
  void require(const JsonValue& object, const std::string& section, const char* key,
               const std::vector<JsonValue>& allowed) const {
    const JsonValue& value = member(object, key);
    if (std::ranges::find(allowed, value) == allowed.end()) refuse(section, key, value);
  }
  bool flag(const JsonValue& object, const std::string& section, const char* key, bool otherwise) const {
    require(object, section, key, {nullptr, true, false});
    const JsonValue& value = member(object, key);
    return value.is_null() ? otherwise : value.get<bool>();
  }

  std::unique_ptr<PieceModel> open_byte_level() const {
    const JsonValue &normalizer = member(json_, "normalizer"), &mask = member(normalizer, "content");
    if (!normalizer.is_null() && !(mask.is_string() && normalizer == JsonValue(space_before_mask(mask))))
      refuse("normalizer", "type", member(normalizer, "type"));
    const JsonValue& level = member(json_, "pre_tokenizer");
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
    parts.pieces = pieces();
    parts.special.assign(parts.pieces.size(), false);
    for (const JsonValue& token : listed_tokens())
      if (member(token, "special") == JsonValue(true))
        if (const auto id = id_in_model(member(token, "content"))) parts.special[*id] = true;
    read_merges(parts.merges);
    if (const JsonValue& unknown = member(model_, "unk_token"); unknown.is_string())
      parts.unknown = unknown.get<std::string>();
    return make_byte_level_bpe(std::move(parts), name_);
  }

  std::unique_ptr<PieceModel> open_wordpiece_of_bert() const {
    const JsonValue& unknown = member(model_, "unk_token");
    if (!unknown.is_string()) refuse("model", "unk_token", unknown);
    require(model_, "model", "continuing_subword_prefix", {"##"});
    const JsonValue& longest = member(model_, "max_input_chars_per_word");
    if (!longest.is_null() && !longest.is_number_unsigned())
      refuse("model", "max_input_chars_per_word", longest);
    require(member(json_, "pre_tokenizer"), "pre_tokenizer", "type", {"BertPreTokenizer"});
    const JsonValue& normalizer = member(json_, "normalizer");
    require(normalizer, "normalizer", "type", {"BertNormalizer"});
    WordPiece parts{.pieces = pieces(), .unknown = unknown.get<std::string>()};
    parts.clean_text = flag(normalizer, "normalizer", "clean_text", true);
    parts.chinese_characters = flag(normalizer, "normalizer", "handle_chinese_chars", true);
    parts.lowercase = flag(normalizer, "normalizer", "lowercase", true);
    parts.strip_accents = flag(normalizer, "normalizer", "strip_accents", parts.lowercase);
    if (!longest.is_null()) parts.longest_word = longest.get<std::int64_t>();
    return make_wordpiece(std::move(parts), name_);
  }

  // The pieces of the model by id; some ids may be unused.
  std::vector<std::string> pieces() const {
    const JsonValue& vocabulary = member(model_, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty())
      tokenizer_is_damaged(name_, "its model has no vocab, an object with an id for each piece");
    std::vector<std::string> pieces;
    for (const auto& [piece, id] : vocabulary.items()) {
      const std::size_t place = id_of(id, piece);
      if (piece.empty()) continue;
      if (place >= pieces.size()) pieces.resize(place + 1);
      if (!pieces[place].empty())
        tokenizer_is_damaged(name_, fmt::format("two pieces have the id {}", place));
      pieces[place] = piece;
    }
    return pieces;
  }

  std::size_t id_of(const JsonValue& id, const std::string& piece) const {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= most_ids)
      tokenizer_is_damaged(
          name_, fmt::format("the id of {} is {}, which is not an id", shortened(piece), shortened(id)));
    return id.get<std::size_t>();
  }

  std::optional<std::size_t> id_in_model(const JsonValue& piece) const {
    const JsonValue& vocabulary = member(model_, "vocab");
    const bool named = piece.is_string() && !piece.get_ref<const std::string&>().empty();
    const auto found = named ? vocabulary.find(piece.get_ref<const std::string&>()) : vocabulary.end();
    if (found == vocabulary.end()) return std::nullopt;
    return found->get<std::size_t>();
  }

  const JsonValue& listed_tokens() const {
    const JsonValue& tokens = member(json_, "added_tokens");
    if (!tokens.is_null() && !tokens.is_array())
      tokenizer_is_damaged(name_, "its added_tokens are not a list");
    return tokens;
  }

  // With the ids that Hugging Face's tokenizers assigns, which must be those of the file.
  std::vector<AddedToken> added_tokens() const {
    std::vector<AddedToken> added;
    const JsonValue& vocabulary = member(model_, "vocab");
    std::int64_t largest = -1;
    for (const JsonValue& token : listed_tokens()) {
      const JsonValue& content = member(token, "content");
      if (!content.is_string()) tokenizer_is_damaged(name_, "an added token has no content, a text");
      const auto& text = content.get_ref<const std::string&>();
      const std::size_t id = id_of(member(token, "id"), text);
      if (text.empty()) continue;
      const std::string section = fmt::format("added token {}", shortened(text));
      const auto is = [&](const char* key) { return flag(token, section, key, false); };
      AddedToken read{.id = static_cast<std::int32_t>(id),
                      .content = text,
                      .special = is("special"),
                      .single_word = is("single_word"),
                      .lstrip = is("lstrip"),
                      .rstrip = is("rstrip"),
                      .normalized = is("normalized")};
      const auto known = id_in_model(content);
      const auto before = std::ranges::find(added, text, &AddedToken::content);
      const std::int64_t expected = known                   ? static_cast<std::int64_t>(*known)
                                    : before != added.end() ? before->id
                                                            : next_added_id(std::ssize(vocabulary), largest);
      if (expected != read.id)
        throw Error(
            fmt::format("{}: added_tokens: {} has the id {}, but tokenizers gives it {}; give the token "
                        "its place in the model's vocab, or take it out",
                        name_, shortened(text), read.id, expected));
      if (!known && before == added.end() && ids_of_model().contains(read.id))
        throw Error(
            fmt::format("{}: added_tokens: {} has the id {}, which a piece of the model has as well, since "
                        "the ids of its vocab have holes; give the token a separate id in vocab",
                        name_, shortened(text), read.id));
      largest = std::max(largest, expected);
      if (before != added.end())
        *before = std::move(read);
      else
        added.push_back(std::move(read));
    }
    return added;
  }

  const std::set<std::int64_t>& ids_of_model() const {
    if (ids_of_model_.empty())
      for (const auto& [piece, id] : member(model_, "vocab").items())
        if (!piece.empty()) ids_of_model_.insert(id.get<std::int64_t>());
    return ids_of_model_;
  }

  void read_merges(std::vector<std::pair<std::string, std::string>>& merges) const {
    const JsonValue& list = member(model_, "merges");
    if (!list.is_array()) tokenizer_is_damaged(name_, "its model has no merges, a list");
    for (const JsonValue& merge : list) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const std::string text = merge.is_string() ? merge.get<std::string>() : "";
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        tokenizer_is_damaged(name_, fmt::format("its merge {} is not of two pieces", shortened(merge)));
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
  }

  const JsonValue& json_;
  const std::string& name_;
  const JsonValue& model_;
  mutable std::set<std::int64_t> ids_of_model_;
};

}  // namespace

OpenedTokenizer open_tokenizer_json(const std::string& bytes, const std::string& name) {
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || bytes[begin] != '{') return {};
  const JsonValue json = storage::parse_json(bytes, name + ":");
  return TokenizerJson(json, name).open();
}

}  // namespace comera::data
