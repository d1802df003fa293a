#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/permutation.h"
#include "data/shards/samples.h"

namespace comera::data {

// Samples of several sources by given shares of the tokens. An epoch has as many tokens as all sources
// together, as nearly as whole samples allow; a source with a small share is then seen in part, and one with
// a large share more than once. Each source goes through its samples in an order of its own, a new one each
// time that it begins again, and goes on in the next epoch where it stood: every sample of a source comes n
// times before any comes n + 1 times. For one thread.
class Mixture final : public SampleSource {
 public:
  struct Part {
    std::string name;  // for messages
    std::unique_ptr<SampleSource> samples;
    std::optional<double> weight = {};  // share of the tokens, against the other weights
  };
  // Either all parts have a weight, more than 0, or none: then each comes once in an epoch. Error if a part
  // has no samples.
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

  // How many samples of a source an epoch has, and how often it is to go through all of them.
  std::int64_t drawn(std::size_t source) const;
  double passes(std::size_t source) const { return sources_[source].passes; }

 private:
  struct Source {
    std::unique_ptr<SampleSource> samples;
    std::int64_t begin = 0, end = 0;  // the mixture's samples begin … end − 1 are its
    double passes = 0;                // as the weights ask for, before they are made whole samples
    // Where its order stands when this epoch begins: how often it was gone through, and how far.
    std::int64_t round = 0, place = 0;
  };
  struct Place {
    const Source& source;
    std::int64_t sample;  // of the source
  };
  Place find(std::int64_t sample) const;
  // The place is counted from the round's beginning, and may lie in a later round.
  std::int64_t sample_at(std::size_t source, std::int64_t round, std::int64_t place) const;

  std::vector<Source> sources_;
  std::uint64_t seed_ = 0;
};

}  // namespace comera::data
