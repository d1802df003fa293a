#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/permutation.h"
#include "data/shards/samples.h"

namespace comera::data {

// Samples of several sources with given shares of the tokens. An epoch has as many tokens as all sources
// together, as nearly as whole samples allow; it contains only a part of a source with a small share, and
// repeats one with a large share. Each source is read in its own order, with a new order in each round, and
// continues in the next epoch where it stopped: every sample of a source comes n times before any comes n + 1
// times. For one thread.
class Mixture final : public SampleSource {
 public:
  struct Part {
    std::string name;  // for messages
    std::unique_ptr<SampleSource> samples;
    std::optional<double> weight = {};  // relative share of the tokens
  };
  // Either all parts have a weight, more than 0, or none: then each comes once per epoch. Error if a part has
  // no samples.
  explicit Mixture(std::vector<Part> parts);

  std::int32_t vocabulary() const override { return sources_[0].samples->vocabulary(); }
  const SpecialIds& special() const override { return sources_[0].samples->special(); }
  std::int64_t count() const override { return sources_.back().end; }
  std::int64_t sequences_per_sample() const override { return sources_[0].samples->sequences_per_sample(); }
  bool masked() const override { return sources_[0].samples->masked(); }
  void begin_epoch(std::uint64_t seed, std::int64_t epoch) override;
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override;
  void read(std::int64_t sample, Sample& to) override;

  // The number of samples of a source in an epoch, and how often the epoch goes through all of them.
  std::int64_t drawn(std::size_t source) const;
  double passes(std::size_t source) const { return sources_[source].passes; }

 private:
  struct Source {
    std::unique_ptr<SampleSource> samples;
    std::int64_t begin = 0, end = 0;  // its samples are begin … end − 1 of the mixture
    double passes = 0;                // according to the weights, before rounding to whole samples
    // The position of its order at the start of this epoch: completed rounds, and the index in the current
    // one.
    std::int64_t round = 0, place = 0;
  };
  struct Place {
    const Source& source;
    std::int64_t sample;  // of the source
  };
  Place find(std::int64_t sample) const;
  // The index counts from the round's beginning, and may lie in a later round.
  std::int64_t sample_at(std::size_t source, std::int64_t round, std::int64_t place) const;

  std::vector<Source> sources_;
  std::uint64_t seed_ = 0;
};

}  // namespace comera::data
