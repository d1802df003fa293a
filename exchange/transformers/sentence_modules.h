#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "model/config.h"
#include "model/model.h"

namespace comera::exchange {

// Throws Error, with the folder to give instead, if the encoder is in a subfolder (0_Transformer).
void require_encoder_in(const std::filesystem::path& folder);

// How sentence-transformers pools the encoder of a folder: "mean", "first", or another word for what only it
// has; empty for a folder without its modules.
std::string pooling_in(const std::filesystem::path& folder);

// The dense layer that sentence-transformers applies to the vectors of a folder.
struct VectorDense {
  std::filesystem::path folder;  // of its own files
  Pooling pooling = Pooling::mean;
  std::int64_t outputs = 0;
  bool biased = true;
  bool tanh = false;
};
// None for a folder without one, or with one that is not available here, which pooling_in() then tells. Error
// if the encoder's vectors, of `width`, are no inputs of it.
std::optional<VectorDense> vector_dense_in(const std::filesystem::path& folder, std::int64_t width);
// Reads its weights into a model with that layer.
void read_vector_dense(const VectorDense& dense, const Model& model);
// Writes the layer of a model that has one, beside the encoder in the folder.
VectorDense write_vector_dense(const std::filesystem::path& folder, const Model& model);

// Differences between what sentence-transformers does around a folder's encoder (modules.json) and `embed`:
// one sentence each. Error in one sentence if it changes the text before the tokenizer sees it.
std::vector<std::string> sentence_notes(const std::filesystem::path& folder,
                                        const data::Tokenizer& tokenizer);

// What sentence-transformers does with the encoder of a folder.
struct SentenceModules {
  Pooling pooling = Pooling::mean;
  std::int64_t width = 0;   // of the encoder's vectors
  std::int64_t length = 0;  // the most tokens of a text
  // Whether the encoder's class has a pooler by default, whose weights the folder lacks.
  bool leaves_out_pooler = false;
  bool dense = false;  // whether write_vector_dense() has written a layer
};

// Writes modules.json and what belongs to it, as all releases of sentence-transformers read it: the encoder,
// its pooling, and vectors of length 1.
void write_sentence_modules(const std::filesystem::path& folder, const SentenceModules& modules);
// The entries of the folder that it writes.
std::vector<std::string> sentence_files();

}  // namespace comera::exchange
