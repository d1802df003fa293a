#include "exchange/transformers/sequence_length.h"

#include <algorithm>
#include <optional>

#include "exchange/json_object.h"
#include "exchange/transformers/config_members.h"

namespace comera::exchange {

namespace {

// Used if positions are unlimited, and the sequence length is not recorded.
constexpr std::int64_t longest_by_default = 512;
constexpr std::int64_t shortest = 5;  // two texts between three special pieces

// transformers writes 1e30 for no limit.
std::optional<double> length_in(const std::filesystem::path& file, const char* key) {
  const auto json = read_object(file);
  if (!json) return std::nullopt;
  const ConfigMembers members(*json, file.string());
  if (!members.has(key)) return std::nullopt;
  const auto length = members.get<double>(key);
  COMERA_CHECK(length >= shortest, "{}: {} = {} is too short for sequences of two texts; give at least {}",
               file.string(), key, length, shortest);
  return length;
}

}  // namespace

SequenceLength sequence_length(const std::filesystem::path& folder, const EncoderConfig& model) {
  const bool ends = model.positions == Positions::learned;
  const std::int64_t most = model.max_positions;
  for (const auto& [name, key] : {std::pair{"sentence_bert_config.json", "max_seq_length"},
                                  std::pair{"tokenizer_config.json", "model_max_length"}}) {
    const std::filesystem::path file = folder / name;
    const auto stated = length_in(file, key);
    if (!stated) continue;
    if (*stated >= static_cast<double>(most)) break;
    const auto tokens = static_cast<std::int64_t>(*stated);
    return {tokens, fmt::format("sequences have up to {} tokens ({} of {}); --length changes that", tokens,
                                key, file.string())};
  }
  return {ends ? most : std::min(most, longest_by_default)};
}

}  // namespace comera::exchange
