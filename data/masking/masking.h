#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/text/words.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Masked language modelling: each eligible token becomes a target with `probability`. A fraction
// `replace_mask` of the targets becomes [MASK], `replace_random` a random ordinary piece, and the rest is
// unchanged. With `words`, words are drawn with `probability`: a token still becomes a target with that
// probability, but all pieces of a word together; each piece's replacement is drawn separately.
struct MaskingOptions {
  double probability = 0.15;
  double replace_mask = 0.8;
  double replace_random = 0.1;
  std::int64_t most_targets = -1;  // per sequence; further ones are unchanged; -1: no limit
  std::shared_ptr<const WordTable> words = nullptr;
};

// Determines the mask of a sequence. It depends on nothing else: not on the batch, its neighbours, the
// process or the thread.
struct MaskingKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

// Masks ids in place. Special pieces are neither targets nor replacements. A sequence with an eligible token
// has at least one target. Random bits: splitmix64's finaliser over (seed, epoch, sample), then over the
// position (of the word's first piece), counter-based: any draw can be repeated independently.
class Masking {
 public:
  // UsageError if a fraction is outside [0, 1], or the vocabulary has no ordinary piece.
  Masking(const MaskingOptions& options, std::int32_t vocabulary, const SpecialIds& special);
  void apply(const MaskingKey& key, std::vector<std::int32_t>& ids, Targets& targets) const;
  // How many targets apply() chooses in a sequence of `length` ids whose only special pieces are the first
  // and the last. Not for whole words, where the ids are needed.
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
