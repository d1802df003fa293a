#pragma once

#include "data/corpus/build_shards.h"
#include "data/corpus/corpus.h"
#include "data/tokenizers/tokenizer_training.h"

// What is made of a corpus, with its progress on stderr.
namespace comera::cli {

struct TrainedTokenizer {
  data::Tokenizer tokenizer;
  data::TrainingCounts counts;
};
TrainedTokenizer make_tokenizer(data::DocumentSource& corpus, data::TokenizerOptions options);
// Prints what it has learned from and what it has not, its size, and a note if it has less than was asked
// for.
void print_vocabulary(const TrainedTokenizer& trained, std::int32_t asked);

// Prints what was kept of the corpus, and what has become of it.
data::BuildCounts make_shards(data::DocumentSource& corpus, const data::Tokenizer& tokenizer,
                              data::BuildOptions options);

}  // namespace comera::cli
