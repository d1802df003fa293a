#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/text/words.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Masked language modelling: each eligible token becomes a target with `probability`; of the targets a
// fraction `replace_mask` becomes [MASK], `replace_random` a random ordinary piece, and the rest stays. With
// `words` it is words that are drawn with `probability`, so that a token still is a target with it, but all
// pieces of a word are targets together; what becomes of each is drawn by itself.
struct MaskingOptions {
  double probability = 0.15;
  double replace_mask = 0.8;
  double replace_random = 0.1;
  std::int64_t most_targets = -1;  // per sequence; more are left as they are; -1: no limit
  std::shared_ptr<const WordTable> words = nullptr;
};

// Which mask a sequence gets. Nothing else enters: not the batch, its neighbours, the process or the thread.
struct MaskingKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

// Masks ids in place. Special pieces are neither targets nor replacements. A sequence with an eligible token
// has at least one target. Random bits: splitmix64's finaliser over (seed, epoch, sample), then over the
// position (of the word's first piece), counter-based: any draw can be repeated by itself.
class Masking {
 public:
  // UsageError if a fraction is not one, or the vocabulary has no ordinary piece.
  Masking(const MaskingOptions& options, std::int32_t vocabulary, const SpecialIds& special);
  void apply(const MaskingKey& key, std::vector<std::int32_t>& ids, Targets& targets) const;
  // How many targets apply() chooses in a sequence of `length` ids of which only the first and the last are
  // special pieces. Not with whole words, where it takes the ids to tell.
  std::int64_t count_targets(const MaskingKey& key, std::int64_t length) const;
  bool counts_by_length() const { return !options_.words; }

 private:
  void choose_tokens(std::uint64_t sample, const std::vector<std::int32_t>& ids,
                     std::vector<std::int32_t>& positions) const;
  void choose_words(std::uint64_t sample, const std::vector<std::int32_t>& ids,
                    std::vector<std::int32_t>& positions) const;

  MaskingOptions options_;
  std::int32_t vocabulary_;
  SpecialIds special_;
  std::vector<std::int32_t> sorted_special_;  // distinct, ascending
};

}  // namespace comera::data
