#pragma once

#include "data/corpus/dropped.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// What a tokenizer was trained on.
struct TrainingCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  // Dropped from the source: "beyond the sample" (documents; see max_bytes), and from the remaining texts
  // "U+2581 or U+2585" (characters that SentencePiece reserves) and "name of a special piece".
  DroppedByReason left_out;
};

// Like train_tokenizer of tokenizer.h, and also counts the training text. Error with a remedy if there is
// none, or if the vocabulary has too few pieces for the text's characters.
Tokenizer train_tokenizer(DocumentSource& source, const TokenizerOptions& options, TrainingCounts& counts);

}  // namespace comera::data
