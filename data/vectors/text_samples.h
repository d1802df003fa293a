#pragma once

#include <string_view>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Single texts as sequences [CLS] text [SEP] of up to `length` tokens, to be encoded. Memory: 4 bytes a
// token.
class TextSamples final : public SampleSource {
 public:
  TextSamples(const Tokenizer& tokenizer, std::int64_t length);
  void add(std::string_view text);
  std::int64_t truncated() const { return truncated_; }

  std::int32_t vocabulary() const override { return vocabulary_; }
  const SpecialIds& special() const override { return special_; }
  std::int64_t count() const override { return std::ssize(ends_) - 1; }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override;
  void read(std::int64_t sample, Sample& to) override;

 private:
  Encoder encoder_;
  std::int32_t vocabulary_;
  SpecialIds special_;
  std::int64_t length_, truncated_ = 0;
  std::vector<std::int32_t> tokens_, scratch_;
  std::vector<std::int64_t> ends_ = {0};
};

}  // namespace comera::data
