#pragma once

#include <cstdint>
#include <filesystem>

#include "data/corpus/corpus.h"

namespace comera::data {

struct FunctionPairsOptions {
  std::filesystem::path output;  // folder; made if it is missing
  double held_out = 0.1;         // share of the functions
  std::int64_t copies = 1;       // examples with label "yes" per function, and as many with "no"
};

struct FunctionPairsCounts {
  std::int64_t functions = 0;   // documented ones
  std::int64_t duplicates = 0;  // left out: documentation or code seen before
  std::int64_t train = 0;       // examples
  std::int64_t validation = 0;
};

// Makes a task from source code alone: does this documentation belong to this function? Writes
// OUTPUT/train.jsonl and OUTPUT/validation.jsonl with the members documentation, code, label ("yes", "no")
// and name. Every function comes with its own documentation and, as often, with another function's of the
// same split, drawn by a hash, so that half of the labels are "yes" and no text tells them apart by itself.
// No function is in both splits, and neither is its documentation. Memory: the functions. Error if the corpus
// has fewer than 50 documented functions.
FunctionPairsCounts build_function_pairs(DocumentSource& source, const FunctionPairsOptions& options);

}  // namespace comera::data
