#include "data/vectors/contrastive_samples.h"

#include <algorithm>
#include <map>

#include "data/batching/batch.h"

namespace comera::data {

namespace {

constexpr std::int64_t around = 2;  // [CLS] and [SEP]

std::span<const std::int32_t> shortened(std::span<const std::int32_t> text, std::int64_t length) {
  return text.first(std::min(text.size(), static_cast<std::size_t>(length - around)));
}

void append_sequence(std::span<const std::int32_t> text, const SpecialIds& special, Sample& to) {
  to.ids.push_back(special.cls);
  to.ids.insert(to.ids.end(), text.begin(), text.end());
  to.ids.push_back(special.separator);
}

void require_room(std::int64_t length) {
  if (length <= around)
    throw UsageError(
        fmt::format("sequences of {} tokens have no room for a text between [CLS] and [SEP]", length));
}

}  // namespace

std::vector<storage::Hash128> text_hashes(const Examples& examples, std::int64_t texts, std::int64_t length) {
  std::vector<storage::Hash128> hashes;
  hashes.reserve(static_cast<std::size_t>(examples.count() * texts));
  for (std::int64_t example = 0; example < examples.count(); ++example)
    for (std::int64_t text = 0; text < texts; ++text) {
      const auto ids = shortened(examples.text(example, static_cast<int>(text)), length);
      hashes.push_back(storage::hash128({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}));
    }
  return hashes;
}

std::vector<std::int32_t> text_identities(const Examples& examples, std::int64_t texts, std::int64_t length) {
  std::map<storage::Hash128, std::int32_t> known;
  std::vector<std::int32_t> identities;
  identities.reserve(static_cast<std::size_t>(examples.count() * texts));
  for (const storage::Hash128& hash : text_hashes(examples, texts, length))
    identities.push_back(known.emplace(hash, static_cast<std::int32_t>(known.size())).first->second);
  return identities;
}

ContrastiveSamples::ContrastiveSamples(const Examples& examples, std::int64_t texts, std::int64_t length)
    : examples_(examples), texts_(texts), length_(length) {
  require_room(length);
  identities_ = text_identities(examples, texts, length);
}

std::span<const std::int32_t> ContrastiveSamples::text(std::int64_t sample, std::int64_t text) const {
  return shortened(examples_.text(sample, static_cast<int>(column(text))), length_);
}

std::int64_t ContrastiveSamples::length(std::int64_t sample) const {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < sequences_per_sample(); ++i) tokens += std::ssize(text(sample, i)) + around;
  return tokens;
}

std::vector<std::int32_t> ContrastiveSamples::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
  return lengths;
}

std::int64_t ContrastiveSamples::truncated() const {
  std::int64_t count = 0;
  for (std::int64_t example = 0; example < examples_.count(); ++example)
    for (std::int64_t i = 0; i < texts_; ++i)
      count += std::ssize(examples_.text(example, static_cast<int>(i))) > length_ - around ? 1 : 0;
  return count;
}

void ContrastiveSamples::read(std::int64_t sample, Sample& to) {
  to.ids.clear();
  append_sequence(text(sample, 0), special(), to);
  to.second = std::ssize(to.ids);
  append_sequence(text(sample, 1), special(), to);
  to.third = texts_ > 2 ? std::ssize(to.ids) : 0;
  if (texts_ > 2) append_sequence(text(sample, 2), special(), to);
  to.type_ids.assign(to.ids.size(), 0);
  to.scores.clear();
  to.label = 0;
  to.score = 0;
}

void ContrastiveSamples::complete(Batch& batch) const {
  const std::int64_t kinds = sequences_per_sample() - 1;  // of candidates: documents, hard negatives
  const std::int64_t room = std::ssize(batch.labels) / (kinds + 1), row = kinds * room;
  COMERA_CHECK(std::ssize(batch.scores) >= room * row,
               "a batch for contrastive learning has room for {} scores, but {} examples have {}",
               batch.scores.size(), room, room * row);
  std::ranges::fill(batch.scores, no_candidate);
  const auto identity = [&](std::int32_t example, std::int64_t text) {
    return identities_[static_cast<std::size_t>(batch.samples[static_cast<std::size_t>(example)] * texts_ +
                                                column(text))];
  };
  for (std::int32_t e = 0; e < batch.examples; ++e) {
    batch.labels[static_cast<std::size_t>(e)] = e;
    const std::int32_t query = identity(e, 0), document = identity(e, 1);
    for (std::int32_t j = 0; j < batch.examples; ++j)
      for (std::int64_t kind = 0; kind < kinds; ++kind) {
        const std::int32_t other = identity(j, kind + 1);
        const bool own = kind == 0 && j == e;
        const bool may_be_right =
            other == query || other == document || (kind == 0 && identity(j, 0) == query);
        if (own || !may_be_right) batch.scores[static_cast<std::size_t>(e * row + kind * room + j)] = 0;
      }
  }
}

std::int64_t SeparateTexts::length(std::int64_t sample) const {
  const auto text = examples_.text(sample / texts_, static_cast<int>(sample % texts_));
  return std::ssize(shortened(text, length_)) + around;
}

std::vector<std::int32_t> SeparateTexts::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
  return lengths;
}

void SeparateTexts::read(std::int64_t sample, Sample& to) {
  to.ids.clear();
  append_sequence(shortened(examples_.text(sample / texts_, static_cast<int>(sample % texts_)), length_),
                  special(), to);
  to.type_ids.assign(to.ids.size(), 0);
  to.second = to.third = 0;
}

}  // namespace comera::data
