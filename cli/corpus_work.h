#pragma once

#include "data/build_shards.h"
#include "data/corpus.h"
#include "data/tokenizers/tokenizer.h"

// What is made of a corpus, with its progress on stderr.
namespace comera::cli {

data::Tokenizer make_tokenizer(data::DocumentSource& corpus, data::TokenizerOptions options);
// Prints its size, and a note if it has less than was asked for.
void print_vocabulary(const data::Tokenizer& tokenizer, std::int32_t asked);

// Prints what was kept of the corpus, and what has become of it.
data::BuildCounts make_shards(data::DocumentSource& corpus, const data::Tokenizer& tokenizer,
                              data::BuildOptions options);

}  // namespace comera::cli
