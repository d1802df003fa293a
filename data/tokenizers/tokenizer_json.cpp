#include "data/tokenizers/tokenizer_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "kernels/core/check.h"
#include "storage/durable_file.h"

namespace comera::data {

namespace {

using Json = nlohmann::ordered_json;

Json special_token(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string piece = tokenizer.piece(id);
  return {{piece, {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}}}};
}

Json post_processor(const Tokenizer& tokenizer, std::int64_t types) {
  const auto special = [&](std::int32_t id, int type) -> Json {
    return {{"SpecialToken", {{"id", tokenizer.piece(id)}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) -> Json {
    return {{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const SpecialIds& ids = tokenizer.special();
  const int second = types > 1 ? 1 : 0;
  Json tokens = special_token(tokenizer, ids.cls);
  tokens.update(special_token(tokenizer, ids.separator));
  const Json single = {special(ids.cls, 0), sequence("A", 0), special(ids.separator, 0)};
  Json pair = single;
  for (int i = 1; i < tokenizer.pair_separators(); ++i) pair.push_back(special(ids.separator, 0));
  pair.push_back(sequence("B", second));
  pair.push_back(special(ids.separator, second));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// The special pieces by their names in transformers.
std::vector<std::pair<const char*, std::int32_t>> named_tokens(const SpecialIds& special) {
  return {{"pad_token", special.pad},
          {"unk_token", special.unknown},
          {"cls_token", special.cls},
          {"sep_token", special.separator},
          {"mask_token", special.mask}};
}

std::string pretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json names_of_special(const Tokenizer& tokenizer) {
  Json names = Json::object();
  for (const auto& [name, id] : named_tokens(tokenizer.special())) names[name] = tokenizer.piece(id);
  return names;
}

}  // namespace

nlohmann::ordered_json ids_by_piece(std::span<const std::string> pieces) {
  // Appended to, because finding a member of such an object takes linear time.
  Json::object_t ids;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (!pieces[id].empty()) ids.emplace_back(pieces[id], id);
  return ids;
}

nlohmann::ordered_json space_before_mask(const std::string& mask) {
  std::string name;
  for (const char c : mask) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) name += '\\';
    name += c;
  }
  return {{"type", "Replace"}, {"pattern", {{"Regex", "(?<! ) " + name}}}, {"content", mask}};
}

std::string tokenizer_json(const Tokenizer& tokenizer, std::int64_t types) {
  Json parts = tokenizer.model().tokenizer_json();
  const std::int32_t mask = tokenizer.special().mask;
  // Words include the space before them, and so does the text that a mask replaces. The normalizer sees the
  // mask's name only if added tokens are searched after normalisation.
  const bool mask_has_space = parts["normalizer"].is_null();
  if (mask_has_space) parts["normalizer"] = space_before_mask(tokenizer.piece(mask));
  std::map<std::int32_t, Json> added;  // in the order of ids
  const auto add = [&](std::int32_t id, const std::string& content, bool special) {
    added[id] = {{"id", id},          {"content", content}, {"single_word", false},
                 {"lstrip", false},   {"rstrip", false},    {"normalized", mask_has_space && id == mask},
                 {"special", special}};
  };
  for (const Json& token : parts["added_tokens"])
    add(token["id"].get<std::int32_t>(), token["content"].get<std::string>(), false);
  for (const AddedToken& token : tokenizer.added_tokens())
    added[token.id] = {
        {"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
        {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
        {"special", token.special}};
  for (const auto& [name, id] : named_tokens(tokenizer.special())) add(id, tokenizer.piece(id), true);
  Json json = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", Json::array()}};
  for (const auto& [id, token] : added) json["added_tokens"].push_back(token);
  for (const char* part : {"normalizer", "pre_tokenizer"}) json[part] = parts[part];
  json["post_processor"] = post_processor(tokenizer, types);
  for (const char* part : {"decoder", "model"}) json[part] = parts[part];
  return pretty(json);
}

std::string special_tokens_map(const Tokenizer& tokenizer) { return pretty(names_of_special(tokenizer)); }

std::string tokenizer_config(const Tokenizer& tokenizer, std::int64_t longest) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (longest > 0) config["model_max_length"] = longest;
  config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  config.update(names_of_special(tokenizer));
  return pretty(config);
}

std::vector<std::string> tokenizer_files() {
  return {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model"};
}

std::string write_tokenizer_folder(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                                   std::int64_t types, std::int64_t longest) {
  if (tokenizer.is_sentencepiece())
    storage::write_file_durably(folder / "tokenizer.model", tokenizer.bytes());
  std::string json;
  try {
    json = tokenizer_json(tokenizer, types);
  } catch (const Error& error) {
    if (!tokenizer.is_sentencepiece()) throw;
    return fmt::format(
        "AutoTokenizer cannot load the tokenizer: {}; tokenizer.model lies in the folder as it is",
        error.what());
  }
  storage::write_file_durably(folder / "tokenizer.json", json);
  storage::write_file_durably(folder / "special_tokens_map.json", special_tokens_map(tokenizer));
  storage::write_file_durably(folder / "tokenizer_config.json", tokenizer_config(tokenizer, longest));
  return "";
}

}  // namespace comera::data
