#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/text/words.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// The pieces of a tokenizer that begin a word, with the space before it where the tokenizer has one, and are
// letters alone, three or more bytes of them. Where no other piece continues them they are words. Parts of
// words, numbers, punctuation, and the shortest words, most of which give sentences their form, stay.
class ReplaceableWords {
 public:
  explicit ReplaceableWords(const Tokenizer& tokenizer);

  std::int64_t count() const { return std::ssize(ids_); }
  // Those of a sequence that can be replaced: none if there are no two words.
  std::int64_t count_in(std::span<const std::int32_t> ids) const;
  // Each such word of a sequence becomes, with this probability, another of these pieces, all alike likely.
  // The draws are those of the key alone.
  void replace(double probability, std::uint64_t key, std::vector<std::int32_t>& ids) const;

 private:
  bool stands_alone(std::span<const std::int32_t> ids, std::size_t i) const;

  WordTable table_;
  std::vector<bool> is_word_;      // of each id
  std::vector<std::int32_t> ids_;  // ascending
};

// Twice as many samples as a source: 2 k is its sample k, and 2 k + 1 the same with some words replaced,
// which are the same in every epoch. So a student meets words that its texts lack, in sentences of their form
// (Jiao et al., 2020, TinyBERT, section 3.2, whose replacements a language model and word vectors suggest).
class WithReplacedWords final : public SampleSource {
 public:
  // probability: of each word (ReplaceableWords::replace()). The source is not masked.
  WithReplacedWords(std::unique_ptr<SampleSource> source, std::shared_ptr<const ReplaceableWords> words,
                    double probability);

  std::int32_t vocabulary() const override { return source_->vocabulary(); }
  const SpecialIds& special() const override { return source_->special(); }
  std::int64_t count() const override { return 2 * source_->count(); }
  void begin_epoch(std::uint64_t seed, std::int64_t epoch) override { source_->begin_epoch(seed, epoch); }
  std::int64_t sequences_per_sample() const override { return source_->sequences_per_sample(); }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override { return source_->length(sample / 2); }
  void read(std::int64_t sample, Sample& to) override;

 private:
  std::unique_ptr<SampleSource> source_;
  std::shared_ptr<const ReplaceableWords> words_;
  double probability_;
};

}  // namespace comera::data
