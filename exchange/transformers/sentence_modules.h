#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::exchange {

// Throws Error, with the folder to give instead, where the encoder is in a folder of its own (0_Transformer).
void require_encoder_in(const std::filesystem::path& folder);

// What sentence-transformers does around the encoder of a folder (modules.json), as far as `embed` does it
// otherwise: a sentence each. Error in one sentence if it changes the text before the tokenizer sees it.
std::vector<std::string> sentence_notes(const std::filesystem::path& folder,
                                        const data::Tokenizer& tokenizer);

}  // namespace comera::exchange
