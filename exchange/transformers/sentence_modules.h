#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::exchange {

// Throws Error, with the folder to give instead, if the encoder is in a subfolder (0_Transformer).
void require_encoder_in(const std::filesystem::path& folder);

// Differences between what sentence-transformers does around a folder's encoder (modules.json) and `embed`:
// one sentence each. Error in one sentence if it changes the text before the tokenizer sees it.
std::vector<std::string> sentence_notes(const std::filesystem::path& folder,
                                        const data::Tokenizer& tokenizer);

}  // namespace comera::exchange
