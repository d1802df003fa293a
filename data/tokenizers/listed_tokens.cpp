#include "data/tokenizers/listed_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"

namespace comera::data {

namespace {

using JsonValue = TokenizerJsonValue;

JsonValue token_object(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false},   {"lstrip", false},
          {"rstrip", false},    {"normalized", !special}, {"special", special}};
}

// A token, and the file and key that it is from.
struct Listed {
  JsonValue token;
  std::string file, key;
  std::optional<std::int64_t> id = {};
};

class TokenList {
 public:
  TokenList(const TokenizerConfig& config, const JsonValue& json, std::string file)
      : config_(config),
        json_(json),
        file_(std::move(file)),
        vocabulary_(member(member(json, "model"), "vocab")),
        legacy_(!config.has("added_tokens_decoder")) {
    made_.list = JsonValue::array();
    made_.names = JsonValue::object();
  }

  ListedTokens make(const std::map<std::string, std::string>& defaults) {
    if (defaults.empty())  // those of tokenizer.json first
      for (const JsonValue& token : member(json_, "added_tokens")) {
        const JsonValue& id = member(token, "id");
        add({token, file_, "added_tokens",
             id.is_number_unsigned() ? std::optional(id.get<std::int64_t>()) : std::nullopt});
      }
    for (const Listed& listed : listed_tokens()) add(listed);
    for (const char* role : special_roles) {
      const auto otherwise = defaults.find(role);
      name_role(role, otherwise == defaults.end() ? "" : otherwise->second);
    }
    for (Listed& extra : extra_special_tokens()) {
      if (places_.contains(content_of(extra.token))) continue;
      if (!extra.token.is_object()) extra.token = token_object(content_of(extra.token), true);
      add(extra);
    }
    for (JsonValue& token : made_.list) token.erase("__type");
    return std::move(made_);
  }

 private:
  void add(Listed listed) {
    const std::string file = (config_.folder() / listed.file).string();
    if (!listed.token.is_object())
      tokenizer_is_damaged(file, "an added token is not an object with a content");
    const std::string content = content_of(listed.token);
    if (content.empty()) return;
    const auto place = places_.find(content);
    std::int64_t id = next_added_id(std::ssize(vocabulary_), largest_);
    if (const auto known = vocabulary_.find(content); known != vocabulary_.end())
      id = known->is_number_unsigned() ? known->get<std::int64_t>() : -1;
    else if (place != places_.end())
      id = made_.list[place->second]["id"].get<std::int64_t>();
    if (listed.id && *listed.id != id)
      throw Error(fmt::format(
          "{}: {} has the id {} there, but {} by its place among the pieces, which is the one that "
          "transformers gives it; correct the one or the other",
          file, shortened(content), *listed.id, id));
    largest_ = std::max(largest_, id);
    listed.token["id"] = id;
    listed.token["content"] = content;
    if (!vocabulary_.contains(content) && !listed.file.empty()) note_source(listed);
    if (place != places_.end()) {
      made_.list[place->second] = std::move(listed.token);
    } else {
      places_[content] = made_.list.size();
      made_.list.push_back(std::move(listed.token));
    }
  }

  // "tokenizer_config.json: added_tokens_decoder, mask_token": one entry for each file.
  void note_source(const Listed& listed) {
    auto& sources = made_.sources;
    const auto same = [&](const std::string& source) { return source.starts_with(listed.file); };
    const auto found = std::ranges::find_if(sources, same);
    if (found == sources.end())
      sources.push_back(listed.key.empty() ? listed.file : fmt::format("{}: {}", listed.file, listed.key));
    else if (!listed.key.empty() && ((*found + ",").find(" " + listed.key + ",") == std::string::npos))
      *found += fmt::format("{} {}", found->find(':') == found->npos ? ":" : ",", listed.key);
  }

  void name_role(const char* role, const std::string& otherwise) {
    const std::string name = config_.name_of(role, otherwise);
    if (name.empty()) return;
    made_.names[role] = name;
    if (const auto place = places_.find(name); place != places_.end()) {
      made_.list[place->second]["special"] = true;
      return;
    }
    if (!vocabulary_.contains(name)) made_.missing.push_back(name);
    add({token_object(name, true), "", ""});
  }

  // By id.
  std::vector<Listed> listed_tokens() const {
    std::map<std::int64_t, Listed> by_id;
    if (!legacy_) {
      for (const auto& [key, token] : config_.get("added_tokens_decoder").items()) {
        if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos ||
            !token.is_object())
          tokenizer_is_damaged(config_.file().string(), "added_tokens_decoder has no token for each id");
        by_id[std::stol(key)] = {token, "tokenizer_config.json", "added_tokens_decoder"};
      }
    } else {
      std::set<std::string> special;
      for (const char* role : special_roles) special.insert(config_.name_of(role, ""));
      for (const Listed& extra : extra_special_tokens()) special.insert(content_of(extra.token));
      for (const auto& [content, id] : config_.added().items()) {
        if (!id.is_number_unsigned())
          tokenizer_is_damaged((config_.folder() / "added_tokens.json").string(),
                               fmt::format("the id of {} is not a number", shortened(content)));
        by_id[id.get<std::int64_t>()] = {token_object(content, special.contains(content)),
                                         "added_tokens.json", ""};
      }
      if (config_.family(TokenizerFamily::generic) != TokenizerFamily::generic)
        for (const JsonValue& token : member(json_, "added_tokens"))
          if (const JsonValue& id = member(token, "id"); id.is_number_unsigned())
            by_id[id.get<std::int64_t>()] = {token, file_, "added_tokens"};
    }
    std::vector<Listed> tokens;
    for (auto& [id, listed] : by_id) {
      listed.id = id;
      tokens.push_back(std::move(listed));
    }
    return tokens;
  }

  std::vector<Listed> extra_special_tokens() const {
    std::vector<Listed> tokens;
    const auto take = [&](const JsonValue& list, const char* file, const char* key) {
      if (list.is_array())
        for (const JsonValue& token : list) tokens.push_back({token, file, key});
    };
    constexpr const char *first = "extra_special_tokens", *second = "additional_special_tokens";
    const JsonValue& extra = config_.get(first);
    const char* key = extra.is_array() && !extra.empty() ? first : second;
    take(config_.get(key), "tokenizer_config.json", key);
    if (legacy_)
      for (const char* each : {first, second})
        take(member(config_.special_map(), each), "special_tokens_map.json", each);
    if (extra.is_object())
      for (const JsonValue& token : extra) tokens.push_back({token, "tokenizer_config.json", first});
    return tokens;
  }

  const TokenizerConfig& config_;
  const JsonValue& json_;
  std::string file_;
  const JsonValue& vocabulary_;
  bool legacy_;
  std::map<std::string, std::size_t> places_;  // in the list
  std::int64_t largest_ = -1;
  ListedTokens made_;
};

}  // namespace

ListedTokens listed_tokens_of(const TokenizerConfig& config, const TokenizerJsonValue& json,
                              const std::string& file, const std::map<std::string, std::string>& defaults) {
  return TokenList(config, json, file).make(defaults);
}

}  // namespace comera::data
