#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/corpus/corpus.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

struct BuildProgress {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;  // of text
  std::int64_t tokens = 0;
};

struct BuildOptions {
  std::filesystem::path output;  // created if missing; see build_shards
  double held_out = 0.02;  // fraction of the documents for the validation split, at least one (WithHeldOut)
  std::int64_t tokens_per_shard = 1 << 26;                  // 256 MiB
  bool replace = true;                                      // existing shards in the folder
  int threads = 0;                                          // for tokenization; 0: one per core
  std::function<void(const BuildProgress&)> progress = {};  // called in the calling thread
};

struct SplitCounts {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t shards = 0;
};

struct BuildCounts {
  CorpusCounts corpus;
  SplitCounts train;
  SplitCounts validation;
  double seconds = 0;
};

// Tokenizes a corpus into OUTPUT/train-00000.h5 … and OUTPUT/validation-00000.h5 …, which do not depend on
// the number of threads. Memory is bounded: a few MiB per thread besides the source's. Shards of an earlier
// run are replaced once all new ones are on disk, which needs room for both. Error if no document is left for
// training, or the disk is full; then the folder is unchanged. A killed process leaves *.partial files, which
// the next build removes.
BuildCounts build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options);

}  // namespace comera::data
