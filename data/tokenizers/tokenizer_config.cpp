#include "data/tokenizers/tokenizer_config.h"

#include <fmt/format.h>

#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::data {

namespace {

using JsonValue = TokenizerJsonValue;

constexpr std::int64_t largest_file = std::int64_t{256} << 20;  // about fifty times the largest in use

struct KnownClass {
  const char* name;
  TokenizerFamily kind;
};
// Class names in transformers, without "Fast" at the end. Other classes have their own tokenization.
constexpr KnownClass known_classes[] = {
    {"BertTokenizer", TokenizerFamily::bert},          {"DistilBertTokenizer", TokenizerFamily::bert},
    {"ElectraTokenizer", TokenizerFamily::bert},       {"MobileBertTokenizer", TokenizerFamily::bert},
    {"ConvBertTokenizer", TokenizerFamily::bert},      {"SqueezeBertTokenizer", TokenizerFamily::bert},
    {"LayoutLMTokenizer", TokenizerFamily::bert},      {"LxmertTokenizer", TokenizerFamily::bert},
    {"MPNetTokenizer", TokenizerFamily::mpnet},        {"RobertaTokenizer", TokenizerFamily::roberta},
    {"LongformerTokenizer", TokenizerFamily::roberta}, {"BartTokenizer", TokenizerFamily::roberta},
    {"PreTrainedTokenizer", TokenizerFamily::generic}, {"TokenizersBackend", TokenizerFamily::generic},
};

}  // namespace

std::string read_tokenizer_file(const std::filesystem::path& path) {
  return storage::read_small_file(
      path, largest_file, "a tokenizer, a SentencePiece model, WordPiece's vocab.txt or a tokenizer.json");
}

TokenizerJsonValue read_tokenizer_object(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return nullptr;
  JsonValue json = storage::parse_json(read_tokenizer_file(path), path.string() + ":");
  if (!json.is_object()) tokenizer_is_damaged(path.string(), "it is not a JSON object");
  return json;
}

std::string content_of(const TokenizerJsonValue& token) {
  const JsonValue& content = token.is_object() ? member(token, "content") : token;
  return content.is_string() ? content.get<std::string>() : std::string();
}

TokenizerConfig::TokenizerConfig(std::filesystem::path folder)
    : folder_(std::move(folder)),
      config_file_(folder_ / "tokenizer_config.json"),
      config_(read_tokenizer_object(config_file_)),
      special_map_(read_tokenizer_object(folder_ / "special_tokens_map.json")),
      added_(read_tokenizer_object(folder_ / "added_tokens.json")) {}

std::string TokenizerConfig::class_name() const {
  if (const JsonValue& name = member(config_, "tokenizer_class"); name.is_string())
    return name.get<std::string>();
  const JsonValue model = read_tokenizer_object(folder_ / "config.json");
  if (const JsonValue& name = member(model, "tokenizer_class"); name.is_string())
    return name.get<std::string>();
  const JsonValue& type = member(model, "model_type");
  if (type == "bert" || type == "megatron-bert") return "BertTokenizer";
  if (type == "roberta") return "RobertaTokenizer";
  if (type == "mpnet") return "MPNetTokenizer";
  return "";
}

TokenizerFamily TokenizerConfig::family(TokenizerFamily unnamed) const {
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
  if (name == "GPT2Tokenizer" && unnamed == TokenizerFamily::roberta) return TokenizerFamily::generic;
  refuse_class();
}

void TokenizerConfig::refuse_class() const {
  throw Error(
      fmt::format("{}: tokenizer_class = {} tokenizes in a way that is not known here; BertTokenizer, "
                  "RobertaTokenizer, MPNetTokenizer and PreTrainedTokenizerFast are, or give another one "
                  "with --tokenizer",
                  config_file_.string(), class_name()));
}

void TokenizerConfig::refuse_disputed_keys() const {
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

bool TokenizerConfig::flag(const char* key, bool otherwise) const {
  const JsonValue& value = member(config_, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean())
    throw Error(
        fmt::format("{}: {} = {} is neither true nor false", config_file_.string(), key, shortened(value)));
  return value.get<bool>();
}

std::string TokenizerConfig::source(const char* key, TokenizerFamily of) const {
  if (!member(config_, key).is_null()) return fmt::format("tokenizer_config.json: {}", key);
  return fmt::format("{}Tokenizer's default{}", of == TokenizerFamily::mpnet ? "MPNet" : "Bert",
                     config_.is_null() ? "" : fmt::format("; tokenizer_config.json has no {}", key));
}

std::string TokenizerConfig::name_of(const char* role, const std::string& otherwise) const {
  const bool legacy = !config_.is_object() || !config_.contains("added_tokens_decoder");
  if (legacy)
    if (std::string name = content_of(member(special_map_, role)); !name.empty()) return name;
  if (std::string name = content_of(member(config_, role)); !name.empty()) return name;
  return otherwise;
}

}  // namespace comera::data
