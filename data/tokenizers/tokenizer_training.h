#pragma once

#include "data/corpus/dropped.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// What a tokenizer has learned from.
struct TrainingCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  // Of what the source gave: "beyond the sample" (documents; see max_bytes), and of the others' texts
  // "U+2581 or U+2585" (characters that SentencePiece keeps for itself) and "name of a special piece".
  DroppedByReason left_out;
};

// As train_tokenizer of tokenizer.h, and counts what it learned from. Error with what to do if there is
// nothing to learn from, or the vocabulary has too few pieces for the text's characters.
Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options, TrainingCounts& counts);

}  // namespace comera::data
