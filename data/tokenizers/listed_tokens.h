#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer_config.h"

namespace comera::data {

// The tokens that a tokenizer's files add to its pieces, special ones included, in transformers' order and
// with its ids.
struct ListedTokens {
  TokenizerJsonValue list;           // of objects, as in tokenizer.json
  TokenizerJsonValue names;          // of special tokens, by role
  std::vector<std::string> missing;  // special tokens that are no pieces
  std::vector<std::string> sources;  // of those that are neither pieces nor special by role
};

// `json` is the combined tokenizer.json, whose own added tokens are from the folder's `file`. `defaults` are
// the class's special tokens by role; without any, the tokens of tokenizer.json come first.
ListedTokens listed_tokens_of(const TokenizerConfig& config, const TokenizerJsonValue& json,
                              const std::string& file, const std::map<std::string, std::string>& defaults);

}  // namespace comera::data
