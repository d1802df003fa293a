#include "data/vectors/text_samples.h"

#include <algorithm>

#include "kernels/core/check.h"

namespace comera::data {

TextSamples::TextSamples(const Tokenizer& tokenizer, std::int64_t length)
    : encoder_(tokenizer),
      vocabulary_(tokenizer.vocabulary()),
      special_(tokenizer.special()),
      length_(length) {
  if (length < 3)
    throw UsageError(
        fmt::format("sequences of {} tokens have no room for a text between [CLS] and [SEP]", length));
}

void TextSamples::add(std::string_view text) {
  scratch_.clear();
  encoder_.encode(text, scratch_);
  const std::int64_t kept = std::min(std::ssize(scratch_), length_ - 2);
  truncated_ += kept < std::ssize(scratch_) ? 1 : 0;
  tokens_.push_back(special_.cls);
  tokens_.insert(tokens_.end(), scratch_.begin(), scratch_.begin() + kept);
  tokens_.push_back(special_.separator);
  ends_.push_back(std::ssize(tokens_));
}

std::int64_t TextSamples::length(std::int64_t sample) const {
  const auto i = static_cast<std::size_t>(sample);
  return ends_[i + 1] - ends_[i];
}

std::vector<std::int32_t> TextSamples::lengths() const {
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
  return lengths;
}

void TextSamples::read(std::int64_t sample, Sample& to) {
  const auto i = static_cast<std::size_t>(sample);
  to.ids.assign(tokens_.begin() + ends_[i], tokens_.begin() + ends_[i + 1]);
  to.type_ids.assign(to.ids.size(), 0);
  to.second = to.third = 0;
}

}  // namespace comera::data
