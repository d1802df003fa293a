#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

// Shared by the readers of a tokenizer's JSON files.
namespace comera::data {

using TokenizerJsonValue = nlohmann::json;  // finds members in logarithmic time

[[noreturn]] void tokenizer_is_damaged(const std::string& name, const std::string& what);

// A value as shown in a message.
std::string shortened(const TokenizerJsonValue& value);

// Null if there is no such member.
const TokenizerJsonValue& member(const TokenizerJsonValue& object, const char* key);

// Whether the member "model" has pieces in SentencePiece's style: Unigram, or BPE that is not byte-level.
bool is_sentencepiece_json(const TokenizerJsonValue& json);

// The id that Hugging Face's tokenizers gives a token added to a model of `count` pieces, when earlier added
// tokens have ids up to `largest` (-1: none).
std::int64_t next_added_id(std::int64_t count, std::int64_t largest);

}  // namespace comera::data
