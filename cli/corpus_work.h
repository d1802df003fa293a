#pragma once

#include "data/corpus/build_shards.h"
#include "data/corpus/corpus.h"
#include "data/tokenizers/tokenizer_training.h"

// Products of a corpus, with progress on stderr.
namespace comera::cli {

struct TrainedTokenizer {
  data::Tokenizer tokenizer;
  data::TrainingCounts counts;
};
TrainedTokenizer make_tokenizer(data::DocumentSource& corpus, data::TokenizerOptions options);
// Prints the training text and what was dropped, the vocabulary's size, and a note if it is smaller than
// requested.
void print_vocabulary(const TrainedTokenizer& trained, std::int32_t asked);

// Prints what was kept of the corpus, and the resulting shards.
data::BuildCounts make_shards(data::DocumentSource& corpus, const data::Tokenizer& tokenizer,
                              data::BuildOptions options);

}  // namespace comera::cli
