#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "model/config.h"

namespace comera::exchange {

// Throws Error, with the folder to give instead, if the encoder is in a subfolder (0_Transformer).
void require_encoder_in(const std::filesystem::path& folder);

// How sentence-transformers pools the encoder of a folder: "mean", "first", or another word for what only it
// has; empty for a folder without its modules.
std::string pooling_in(const std::filesystem::path& folder);

// Differences between what sentence-transformers does around a folder's encoder (modules.json) and `embed`:
// one sentence each. Error in one sentence if it changes the text before the tokenizer sees it.
std::vector<std::string> sentence_notes(const std::filesystem::path& folder,
                                        const data::Tokenizer& tokenizer);

// What sentence-transformers does with the encoder of a folder.
struct SentenceModules {
  Pooling pooling = Pooling::mean;
  std::int64_t width = 0;   // of the vectors
  std::int64_t length = 0;  // the most tokens of a text
  // Whether the encoder's class has a pooler by default, whose weights the folder lacks.
  bool leaves_out_pooler = false;
};

// Writes modules.json and what belongs to it, as all releases of sentence-transformers read it: the encoder,
// its pooling, and vectors of length 1.
void write_sentence_modules(const std::filesystem::path& folder, const SentenceModules& modules);
// The entries of the folder that it writes.
std::vector<std::string> sentence_files();

}  // namespace comera::exchange
