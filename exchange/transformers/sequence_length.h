#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/config.h"

namespace comera::exchange {

// The sequence length that a folder's tools use for its model.
struct SequenceLength {
  std::int64_t tokens = 0;
  std::string note = {};  // the file and key that define it; empty if none did
};

// Read from sentence-transformers' sentence_bert_config.json (max_seq_length), or in newer versions, as in
// transformers, from tokenizer_config.json (model_max_length). At most the model's number of positions, which
// is also the default. Error in one sentence for an invalid length.
SequenceLength sequence_length(const std::filesystem::path& folder, const EncoderConfig& model);

}  // namespace comera::exchange
