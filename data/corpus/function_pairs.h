#pragma once

#include <cstdint>
#include <filesystem>

#include "data/corpus/corpus.h"

namespace comera::data {

struct FunctionPairsOptions {
  std::filesystem::path output;  // folder; created if missing
  double held_out = 0.1;         // share of the functions
  bool matching_only = false;    // without a label, for contrastive learning; copies are not used
  std::int64_t copies = 1;       // examples with label "yes" per function, and as many with "no"
};

struct FunctionPairsCounts {
  std::int64_t functions = 0;   // documented ones
  std::int64_t duplicates = 0;  // skipped: documentation or code seen before
  std::int64_t train = 0;       // examples
  std::int64_t validation = 0;
};

// Makes a task from source code alone: does this documentation belong to this function? Writes
// OUTPUT/train.jsonl and OUTPUT/validation.jsonl with the members documentation, code, label ("yes", "no")
// and name. Every function is paired with its own documentation and, equally often, with that of another
// function of the same split, drawn by a hash. Half of the labels are "yes", and no text alone reveals its
// label. With matching_only there are only the former, as members documentation, code and name. No function
// and no documentation is in both splits. Memory: the functions. Error if the corpus has fewer than 50
// documented functions.
FunctionPairsCounts build_function_pairs(DocumentSource& source, const FunctionPairsOptions& options);

}  // namespace comera::data
