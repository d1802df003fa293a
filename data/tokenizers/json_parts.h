#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

// What the readers of a tokenizer's JSON files share.
namespace comera::data {

using TokenizerJsonValue = nlohmann::json;  // finds members in logarithmic time

[[noreturn]] void tokenizer_is_damaged(const std::string& name, const std::string& what);

// A value as a message shows it.
std::string shortened(const TokenizerJsonValue& value);

// Null if there is no such member.
const TokenizerJsonValue& member(const TokenizerJsonValue& object, const char* key);

// A member "model" with pieces in the manner of SentencePiece: Unigram, or BPE that is not byte-level.
bool is_sentencepiece_json(const TokenizerJsonValue& json);

// The id that tokenizers gives a token that is added to a model of `count` pieces, of which those added
// before have ids of up to `largest` (-1: none).
std::int64_t next_added_id(std::int64_t count, std::int64_t largest);

}  // namespace comera::data
