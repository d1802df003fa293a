#include "data/shards/mixed_sequences.h"

#include <algorithm>
#include <cmath>

#include "data/shards/mixture.h"
#include "storage/hash.h"

namespace comera::data {
namespace {

class MixedSequences final : public SequenceSet {
 public:
  explicit MixedSequences(std::vector<MixedPart> parts) : parts_(std::move(parts)) {
    for (const MixedPart& part : parts_) {
      COMERA_CHECK(part.set->vocabulary() == vocabulary(), "{} and {} have vocabularies of {} and {} pieces",
                   parts_[0].name, part.name, vocabulary(), part.set->vocabulary());
      COMERA_CHECK(
          part.set->masked() == masked(),
          "{} has its own targets and {} has none, so they cannot be mixed; set data.targets to \"dynamic\"",
          (masked() ? parts_[0] : part).name, (masked() ? part : parts_[0]).name);
    }
  }

  std::int32_t vocabulary() const override { return parts_[0].set->vocabulary(); }
  std::int32_t types() const override {
    std::int32_t most = 0;
    for (const MixedPart& part : parts_) most = std::max(most, part.set->types());
    return most;
  }
  void check_types(std::int32_t types) const override {
    for (const MixedPart& part : parts_) part.set->check_types(types);
  }
  bool masked() const override { return parts_[0].set->masked(); }
  std::string fingerprint() const override {
    std::string all;
    for (const MixedPart& part : parts_) all += part.set->fingerprint();
    return storage::hash128(all).hex();
  }
  std::vector<FileFingerprint> files() const override {
    std::vector<FileFingerprint> files;
    for (const MixedPart& part : parts_)
      for (const FileFingerprint& file : part.set->files())
        files.push_back({(std::filesystem::path(part.name) / file.name).string(), file.content});
    return files;
  }
  bool has_targets() const override {
    return std::ranges::all_of(parts_, [](const MixedPart& part) { return part.set->has_targets(); });
  }
  std::unique_ptr<SampleSource> samples(std::int64_t length, std::int64_t cache_bytes) const override {
    return mixture(length, cache_bytes / static_cast<std::int64_t>(parts_.size()));
  }
  // Weighted by their occurrences in an epoch.
  void count_pieces(std::vector<std::int64_t>& counts) const override {
    const std::unique_ptr<Mixture> whole = mixture(any_length, 0);
    std::vector<std::int64_t> own(counts.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::ranges::fill(own, 0);
      parts_[i].set->count_pieces(own);
      const double passes = whole->passes(i);
      for (std::size_t id = 0; id < own.size(); ++id)
        counts[id] += std::llround(passes * static_cast<double>(own[id]));
    }
  }

 private:
  std::unique_ptr<Mixture> mixture(std::int64_t length, std::int64_t cache_bytes) const {
    std::vector<Mixture::Part> sources;
    for (const MixedPart& part : parts_)
      sources.push_back({part.name, part.set->samples(length, cache_bytes), part.weight});
    return std::make_unique<Mixture>(std::move(sources));
  }

  std::vector<MixedPart> parts_;
};

}  // namespace

std::unique_ptr<SequenceSet> mix(std::vector<MixedPart> parts) {
  return std::make_unique<MixedSequences>(std::move(parts));
}

}  // namespace comera::data
