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

// The dense layer that sentence-transformers applies to the pooled vectors of a folder.
struct VectorDense {
  std::filesystem::path folder;  // of its own files
  std::int64_t outputs = 0;
  bool biased = true;
  bool tanh = false;
};

// What turns the hidden states of a folder's encoder into vectors there.
struct VectorModules {
  std::string pooling;  // "mean", "first", or another word for what only it has; empty without its modules
  std::optional<VectorDense> dense;
  std::string unavailable;  // a dense layer that is not available here, in words; empty: none

  // Of the vectors as a whole.
  const std::string& words() const { return unavailable.empty() ? pooling : unavailable; }
};
// Error if a dense layer's files contradict themselves or the encoder.
VectorModules vector_modules_in(const std::filesystem::path& folder, const EncoderConfig& encoder);
// Reads its weights into a model with that layer.
void read_vector_dense(const VectorDense& dense, const Model& model);
// Writes the layer of a model that has one, beside the encoder in the folder.
VectorDense write_vector_dense(const std::filesystem::path& folder, const Model& model);

// Differences between what sentence-transformers does around a folder's encoder (modules.json) and `embed`:
// one sentence each. Error in one sentence if it changes the text before the tokenizer sees it.
std::vector<std::string> sentence_notes(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
                                        const VectorModules& modules);

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
