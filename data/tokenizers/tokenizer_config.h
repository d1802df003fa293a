#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/tokenizers/json_parts.h"

// The files beside a tokenizer's model, as transformers writes them, and what they say.
namespace comera::data {

// Kinds of transformers' classes that tokenize alike: mpnet's has BERT's pieces and RoBERTa's special tokens;
// a generic one does what tokenizer.json says.
enum class TokenizerFamily : std::uint8_t { bert, mpnet, roberta, generic };

// transformers' names of special tokens, in its order.
inline constexpr const char* special_roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                "pad_token", "cls_token", "mask_token"};

// A file of a tokenizer, read whole. Error if it is too large to be one, UsageError if it is not there.
std::string read_tokenizer_file(const std::filesystem::path& path);
// An object, or null if the file does not exist.
TokenizerJsonValue read_tokenizer_object(const std::filesystem::path& path);

// The content of a token that is given as a text or as an object with its flags.
std::string content_of(const TokenizerJsonValue& token);

// tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder; each may be missing.
class TokenizerConfig {
 public:
  explicit TokenizerConfig(std::filesystem::path folder);

  // As if none of the files were there: a tokenizer.json alone.
  void forget() { config_ = special_map_ = added_ = nullptr; }
  bool is_there() const { return !config_.is_null(); }
  bool has(const char* key) const { return !member(config_, key).is_null(); }
  const TokenizerJsonValue& get(const char* key) const { return member(config_, key); }
  const TokenizerJsonValue& special_map() const { return special_map_; }
  const TokenizerJsonValue& added() const { return added_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& file() const { return config_file_; }

  // The class in tokenizer_config.json; otherwise derived from the model's type.
  std::string class_name() const;
  // `unnamed` if no class is named. Error for a class with its own way to tokenize.
  TokenizerFamily family(TokenizerFamily unnamed) const;
  [[noreturn]] void refuse_class() const;
  // Versions of transformers interpret some keys differently.
  void refuse_disputed_keys() const;

  bool flag(const char* key, bool otherwise) const;
  // Where a flag's value is from: "tokenizer_config.json: do_lower_case".
  std::string source(const char* key, TokenizerFamily of = TokenizerFamily::bert) const;

  // The name of a special token: from the files, or the class's default.
  std::string name_of(const char* role, const std::string& otherwise) const;

 private:
  std::filesystem::path folder_, config_file_;
  TokenizerJsonValue config_, special_map_, added_;
};

}  // namespace comera::data
