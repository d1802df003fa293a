#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/config.h"

namespace comera::exchange {

// How long the sequences are that a folder's own tools give to its model.
struct SequenceLength {
  std::int64_t tokens = 0;
  std::string note = {};  // which file and key said so; empty if none did
};

// sentence-transformers keeps it in sentence_bert_config.json (max_seq_length), newer versions, as
// transformers, in tokenizer_config.json (model_max_length). At most as many as the model has positions, and
// these if nothing is said. Error in one sentence for a length that is none.
SequenceLength sequence_length(const std::filesystem::path& folder, const EncoderConfig& model);

}  // namespace comera::exchange
