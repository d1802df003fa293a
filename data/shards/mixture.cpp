#include "data/shards/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace comera::data {
namespace {

std::int64_t tokens_of(const SampleSource& samples) {
  const std::vector<std::int32_t> lengths = samples.lengths();
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

}  // namespace

Mixture::Mixture(std::vector<Part> parts) {
  COMERA_CHECK(!parts.empty(), "a mixture needs at least one source");
  std::vector<double> tokens;
  double all = 0, weights = 0;
  for (const Part& part : parts) {
    COMERA_CHECK(part.samples->count() > 0, "{} has no samples to train on", part.name);
    COMERA_CHECK(part.weight.has_value() == parts[0].weight.has_value(),
                 "{} has a weight and {} has none; give weights to all sources, or to none",
                 (part.weight ? part : parts[0]).name, (part.weight ? parts[0] : part).name);
    COMERA_CHECK(part.weight.value_or(1) > 0, "the weight of {} must be more than 0, not {}", part.name,
                 *part.weight);
    tokens.push_back(static_cast<double>(tokens_of(*part.samples)));
    all += tokens.back();
    weights += part.weight.value_or(0);
  }
  std::int64_t end = 0;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    Part& part = parts[s];
    const double passes = part.weight ? *part.weight / weights * all / tokens[s] : 1;
    const auto drawn = static_cast<std::int64_t>(
        std::max(1.0, std::round(passes * static_cast<double>(part.samples->count()))));
    sources_.push_back(
        {.samples = std::move(part.samples), .begin = end, .end = end + drawn, .passes = passes});
    end += drawn;
  }
}

std::int64_t Mixture::drawn(std::size_t source) const {
  return sources_[source].end - sources_[source].begin;
}

void Mixture::begin_epoch(std::uint64_t seed, std::int64_t epoch) {
  if (seed_ != seed) seed_ = seed;  // lengths() may read it concurrently
  for (Source& source : sources_) {
    const std::int64_t before = epoch * (source.end - source.begin);
    source.round = before / source.samples->count();
    source.place = before % source.samples->count();
  }
}

std::int64_t Mixture::sample_at(std::size_t source, std::int64_t round, std::int64_t place) const {
  const std::int64_t count = sources_[source].samples->count();
  // A separate seed for each source, so that two of equal size do not have the same order.
  const std::uint64_t seed = seed_ + source * 0x9e3779b97f4a7c15;
  return Permutation(count, seed, round + place / count)[place % count];
}

Mixture::Place Mixture::find(std::int64_t sample) const {
  const auto source = std::ranges::upper_bound(sources_, sample, {}, &Source::end);
  const auto number = static_cast<std::size_t>(source - sources_.begin());
  return {*source, sample_at(number, source->round, source->place + sample - source->begin)};
}

std::int64_t Mixture::length(std::int64_t sample) const {
  const auto [source, own] = find(sample);
  return source.samples->length(own);
}

std::vector<std::int32_t> Mixture::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const std::vector<std::int32_t> own = sources_[s].samples->lengths();
    for (std::int64_t place = 0; place < drawn(s); ++place)
      lengths.push_back(own[static_cast<std::size_t>(sample_at(s, 0, place))]);
  }
  return lengths;
}

void Mixture::read(std::int64_t sample, Sample& to) {
  const auto [source, own] = find(sample);
  source.samples->read(own, to);
}

}  // namespace comera::data
