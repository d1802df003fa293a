#include "exchange/transformers/sentence_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "exchange/json_object.h"
#include "exchange/transformers/config_members.h"
#include "storage/durable_file.h"

namespace comera::exchange {

namespace {

bool lowers_text(const data::Tokenizer& tokenizer) {
  for (char c = 'A'; c <= 'Z'; ++c)
    if (tokenizer.encode(std::string(1, c)) !=
        tokenizer.encode(std::string(1, static_cast<char>(c - 'A' + 'a'))))
      return false;
  return true;
}

void require_text_as_it_is(const std::filesystem::path& folder, const data::Tokenizer& tokenizer) {
  const std::filesystem::path file = folder / "sentence_bert_config.json";
  const auto json = read_object(file);
  if (!json) return;
  const bool lowers = ConfigMembers(*json, file.string()).get<bool>("do_lower_case", false);
  COMERA_CHECK(
      !lowers || lowers_text(tokenizer),
      "{}: do_lower_case = true cannot be imported, since the tokenizer beside it keeps capitals; set "
      "it there (do_lower_case of tokenizer_config.json)",
      file.string());
}

// Newer files name the modes, older ones have a flag for each.
std::vector<std::string> pooling_modes(const std::filesystem::path& file) {
  const auto json = read_object(file);
  if (!json) return {"mean"};
  if (const auto named = json->find("pooling_mode"); named != json->end()) {
    if (named->is_string()) return {named->get<std::string>()};
    if (named->is_array())
      return ConfigMembers(*json, file.string()).get<std::vector<std::string>>("pooling_mode");
  }
  constexpr std::string_view prefix = "pooling_mode_";
  std::vector<std::string> modes;
  for (const auto& [key, value] : json->items()) {
    if (!key.starts_with(prefix) || !value.is_boolean() || !value.get<bool>()) continue;
    const std::string mode = key.substr(prefix.size());
    modes.push_back(mode == "mean_tokens" ? "mean" : mode == "cls_token" ? "cls" : mode);
  }
  return modes.empty() ? std::vector<std::string>{"mean"} : modes;
}

void add_pooling(const std::filesystem::path& file, std::vector<std::string>& notes) {
  const std::vector<std::string> modes = pooling_modes(file);
  if (modes == std::vector<std::string>{"mean"}) return;
  if (modes == std::vector<std::string>{"cls"})
    notes.push_back(
        fmt::format("its vectors are those of the first token ({}), as embed takes them", file.string()));
  else
    notes.push_back(
        fmt::format("its pooling is not available in embed: {} ({})", fmt::join(modes, ", "), file.string()));
}

}  // namespace

void require_encoder_in(const std::filesystem::path& folder) {
  std::error_code code;
  if (std::filesystem::exists(folder / "config.json", code)) return;
  const auto modules = read_json(folder / "modules.json");
  if (!modules || !modules->is_array() || modules->empty() || !modules->front().is_object()) return;
  const auto path =
      ConfigMembers(modules->front(), (folder / "modules.json").string()).get<std::string>("path", "");
  COMERA_CHECK(path.empty(), "{}: has no config.json; its modules.json names {}: import that",
               folder.string(), (folder / path).string());
}

std::string pooling_in(const std::filesystem::path& folder) {
  const auto json = read_json(folder / "modules.json");
  if (!json || !json->is_array()) return {};
  std::string pooling;
  for (const nlohmann::json& entry : *json) {
    if (!entry.is_object()) continue;
    const ConfigMembers module(entry, (folder / "modules.json").string());
    const auto type = module.get<std::string>("type", "");
    if (type.ends_with("Dense")) return "a dense layer behind the pooling";
    if (!type.ends_with("Pooling")) continue;
    const std::vector<std::string> modes =
        pooling_modes(folder / module.get<std::string>("path", "") / "config.json");
    pooling = modes == std::vector<std::string>{"cls"} ? "first" : fmt::format("{}", fmt::join(modes, ", "));
  }
  return pooling;
}

std::vector<std::string> sentence_notes(const std::filesystem::path& folder,
                                        const data::Tokenizer& tokenizer) {
  require_text_as_it_is(folder, tokenizer);
  std::vector<std::string> notes;
  const std::filesystem::path file = folder / "modules.json";
  const auto json = read_json(file);
  if (!json || !json->is_array()) return notes;
  std::vector<std::string> others;
  for (const nlohmann::json& entry : *json) {
    COMERA_CHECK(entry.is_object(), "{}: is damaged: it is not a list of modules", file.string());
    const ConfigMembers module(entry, file.string());
    const auto type = module.get<std::string>("type", ""), path = module.get<std::string>("path", "");
    if (type.ends_with("Pooling"))
      add_pooling(folder / path / "config.json", notes);
    else if (type.ends_with("Normalize"))
      notes.push_back(
          fmt::format("its vectors have the length 1 ({}): use embed --normalize", file.string()));
    else if (!type.ends_with("Transformer"))
      others.push_back(type.substr(type.rfind('.') + 1));
  }
  const bool dense = std::ranges::count(others, "Dense") > 0;
  if (!others.empty())
    notes.push_back(fmt::format("{} what follows the pooling: {} ({})",
                                dense ? "embed --pooling mean or first gives vectors without" : "embed skips",
                                fmt::join(others, ", "), file.string()));
  return notes;
}

namespace {

constexpr const char *pooling_folder = "1_Pooling", *normalize_folder = "2_Normalize";

}  // namespace

std::vector<std::string> sentence_files() {
  return {"modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", pooling_folder,
          normalize_folder};
}

void write_sentence_modules(const std::filesystem::path& folder, const SentenceModules& modules) {
  using Json = nlohmann::ordered_json;
  const auto write = [&](const std::filesystem::path& file, const Json& json) {
    storage::create_directories_durably((folder / file).parent_path());
    storage::write_file_durably(folder / file, json.dump(2) + "\n");
  };
  Json list = Json::array();
  const auto add = [&](const char* path, const char* type) {
    const std::size_t number = list.size();
    list.push_back({{"idx", number},
                    {"name", std::to_string(number)},
                    {"path", path},
                    {"type", fmt::format("sentence_transformers.models.{}", type)}});
  };
  add("", "Transformer");
  add(pooling_folder, "Pooling");
  add(normalize_folder, "Normalize");
  write("modules.json", list);
  Json encoder = {{"max_seq_length", modules.length}, {"do_lower_case", false}};
  if (modules.leaves_out_pooler) encoder["model_args"] = {{"add_pooling_layer", false}};
  write("sentence_bert_config.json", encoder);
  write("config_sentence_transformers.json",
        {{"prompts", Json::object()}, {"default_prompt_name", nullptr}, {"similarity_fn_name", "cosine"}});
  const bool mean = modules.pooling == Pooling::mean;
  write(std::filesystem::path(pooling_folder) / "config.json",
        {{"word_embedding_dimension", modules.width},
         {"pooling_mode_cls_token", !mean},
         {"pooling_mode_mean_tokens", mean},
         {"pooling_mode_max_tokens", false},
         {"pooling_mode_mean_sqrt_len_tokens", false}});
  write(std::filesystem::path(normalize_folder) / "config.json", Json::object());
}

}  // namespace comera::exchange
