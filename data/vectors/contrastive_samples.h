#pragma once

#include <cstdint>
#include <vector>

#include "data/shards/samples.h"
#include "data/tables/examples.h"
#include "storage/hash.h"

namespace comera::data {

// A score (PackedBatch::scores) that removes a document from the candidates of a query.
inline constexpr float no_candidate = -1e9F;

// Examples for contrastive learning: each text is a sequence [CLS] text [SEP] of its own, of up to `length`
// tokens. Of two texts the first is the query and the second its document; a third is a hard negative. A
// single text is both query and document, whose dropout masks differ.
class ContrastiveSamples final : public SampleSource {
 public:
  // texts: columns of the table, 1 to 3. examples must outlive this.
  ContrastiveSamples(const Examples& examples, std::int64_t texts, std::int64_t length);

  std::int32_t vocabulary() const override { return examples_.vocabulary(); }
  const SpecialIds& special() const override { return examples_.special(); }
  std::int64_t count() const override { return examples_.count(); }
  std::int64_t sequences_per_sample() const override { return std::max<std::int64_t>(texts_, 2); }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override;
  void read(std::int64_t sample, Sample& to) override;
  // Example e has the target e. Its candidates are its own document and the documents and hard negatives of
  // the other examples but for those that may be right too: documents of an equal query, and texts that equal
  // its query or document.
  void complete(Batch& batch) const override;

  // How many texts had to be truncated.
  std::int64_t truncated() const;

 private:
  std::int64_t column(std::int64_t text) const { return std::min(text, texts_ - 1); }
  std::span<const std::int32_t> text(std::int64_t sample, std::int64_t text) const;

  const Examples& examples_;
  std::int64_t texts_, length_;
  std::vector<std::int32_t> identities_;  // of each text: equal ones have one number
};

// Every text of every example as a sequence of its own, in the order of the examples: sample e T + t is text
// t of example e.
class SeparateTexts final : public SampleSource {
 public:
  // examples must outlive this.
  SeparateTexts(const Examples& examples, std::int64_t texts, std::int64_t length)
      : examples_(examples), texts_(texts), length_(length) {}

  std::int32_t vocabulary() const override { return examples_.vocabulary(); }
  const SpecialIds& special() const override { return examples_.special(); }
  std::int64_t count() const override { return examples_.count() * texts_; }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override;
  void read(std::int64_t sample, Sample& to) override;

 private:
  const Examples& examples_;
  std::int64_t texts_, length_;
};

// A hash of the tokens of each text of SeparateTexts.
std::vector<storage::Hash128> text_hashes(const Examples& examples, std::int64_t texts, std::int64_t length);
// A number for each text of SeparateTexts, the same for equal ones.
std::vector<std::int32_t> text_identities(const Examples& examples, std::int64_t texts, std::int64_t length);

}  // namespace comera::data
