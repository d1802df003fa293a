#include "data/mixture.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>
#include <set>

#include "data/loader.h"

namespace comera::data {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t pieces = 5000;

// Samples of one length whose only token is `first` + their number.
class Numbers final : public SampleSource {
 public:
  Numbers(std::int32_t first, std::int64_t count, std::int32_t length = 3)
      : first_(first), count_(count), length_(length) {}
  std::int32_t vocabulary() const override { return data::pieces; }
  const SpecialIds& special() const override { return special_; }
  std::int64_t count() const override { return count_; }
  std::vector<std::int32_t> lengths() const override {
    return std::vector<std::int32_t>(static_cast<std::size_t>(count_), length_);
  }
  std::int64_t length(std::int64_t) const override { return length_; }
  void read(std::int64_t sample, Sample& to) override {
    to = Sample{};
    to.ids.assign(static_cast<std::size_t>(length_), first_ + static_cast<std::int32_t>(sample));
    to.ids.front() = special_.cls;
    to.ids.back() = special_.separator;
    to.type_ids.assign(to.ids.size(), 0);
  }

 private:
  SpecialIds special_;
  std::int32_t first_;
  std::int64_t count_;
  std::int32_t length_;
};

template <class... Sources>
Mixture mixture(const std::vector<double>& weights, Sources... sources) {
  std::vector<Mixture::Part> parts;
  (parts.push_back(
       {.name = "source " + std::to_string(parts.size()), .samples = std::make_unique<Numbers>(sources)}),
   ...);
  for (std::size_t i = 0; i < weights.size(); ++i) parts[i].weight = weights[i];
  return Mixture(std::move(parts));
}

// How often each token comes in an epoch.
std::map<std::int32_t, int> tokens_of_epoch(Mixture& mixture, std::int64_t epoch) {
  mixture.begin_epoch(7, epoch);
  std::map<std::int32_t, int> counts;
  Sample sample;
  for (std::int64_t i = 0; i < mixture.count(); ++i) {
    mixture.read(i, sample);
    EXPECT_EQ(static_cast<std::int64_t>(sample.ids.size()), mixture.length(i));
    ++counts[sample.ids[1]];
  }
  return counts;
}

TEST(Mixture, AnEpochHasTheTokensOfAllAndEachItsShare) {
  // 100 samples of 3 tokens and 60 of 10: 900 tokens; the first source should have two thirds.
  Mixture mixed = mixture({2, 1}, Numbers(100, 100, 3), Numbers(1000, 60, 10));
  EXPECT_EQ(mixed.drawn(0), 200);
  EXPECT_EQ(mixed.drawn(1), 30);
  EXPECT_EQ(mixed.count(), 230);
  mixed.begin_epoch(7, 0);
  const std::vector<std::int32_t> lengths = mixed.lengths();
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), 0), 900);
  for (std::int64_t i = 0; i < mixed.count(); ++i) EXPECT_EQ(lengths[i], mixed.length(i));
}

// Baselines count by the requested weights, before rounding to whole samples.
TEST(Mixture, PassesAreNotRoundedToSamples) {
  Mixture mixed = mixture({1, 49}, Numbers(100, 1, 1000), Numbers(1000, 100, 100));
  EXPECT_EQ(mixed.drawn(0), 1);
  EXPECT_DOUBLE_EQ(mixed.passes(0), 11000.0 / 50 / 1000);
  EXPECT_DOUBLE_EQ(mixed.passes(1), 11000.0 * 49 / 50 / 10000);
}

TEST(Mixture, WithoutWeightsEachComesAsItIs) {
  Mixture mixed = mixture({}, Numbers(100, 100, 3), Numbers(1000, 60, 10));
  EXPECT_EQ(mixed.drawn(0), 100);
  EXPECT_EQ(mixed.drawn(1), 60);
  for (const auto& [token, count] : tokens_of_epoch(mixed, 3)) EXPECT_EQ(count, 1) << token;
}

TEST(Mixture, EverySampleComesAsOftenAsAnyOther) {
  Mixture mixed = mixture({2, 1}, Numbers(100, 100, 3), Numbers(1000, 60, 10));
  std::map<std::int32_t, int> total;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto counts = tokens_of_epoch(mixed, epoch);
    for (std::int32_t i = 0; i < 100; ++i) EXPECT_EQ(counts.at(100 + i), 2) << "drawn twice in each epoch";
    for (const auto& [token, count] : counts) total[token] += count;
  }
  // Half of the second source in each of two epochs, and not the same half.
  for (std::int32_t i = 0; i < 60; ++i) EXPECT_EQ(total.at(1000 + i), 1) << i;
}

TEST(Mixture, OrdersDifferByEpochSeedAndSource) {
  Mixture mixed = mixture({1, 1}, Numbers(100, 50), Numbers(1000, 50));
  const auto order = [&](std::uint64_t seed, std::int64_t epoch) {
    mixed.begin_epoch(seed, epoch);
    std::vector<std::int32_t> ids;
    Sample sample;
    for (std::int64_t i = 0; i < mixed.count(); ++i) {
      mixed.read(i, sample);
      ids.push_back(sample.ids[1]);
    }
    return ids;
  };
  const auto first = order(1, 0);
  EXPECT_EQ(order(1, 0), first);
  EXPECT_NE(order(1, 1), first);
  EXPECT_NE(order(2, 0), first);
  std::vector<std::int32_t> a(first.begin(), first.begin() + 50), b(first.begin() + 50, first.end());
  for (auto& id : b) id -= 900;
  EXPECT_NE(a, b);
}

// A loader over a mixture resumes where another stopped, micro-batches included, across the ends of epochs.
TEST(Mixture, ALoaderResumesInEveryPlace) {
  LoaderOptions options;
  options.capacity = {.tokens = 64, .sequences = 10, .longest = 16, .masked = 30, .unique_ids = 64};
  options.seed = 3;
  options.prefetch = 0;
  const auto samples = [] {
    return std::make_unique<Mixture>(
        mixture({3, 1, 1}, Numbers(100, 40, 5), Numbers(1000, 30, 9), Numbers(2000, 1, 4)));
  };
  Loader whole(samples(), options);
  std::vector<LoaderPosition> positions;
  std::vector<std::vector<std::int32_t>> micro_batches;
  for (int micro_batch = 0; micro_batch < 40; ++micro_batch) {
    positions.push_back(whole.position());
    const Batch& batch = whole.next();
    micro_batches.emplace_back(batch.token_ids.begin(), batch.token_ids.begin() + batch.tokens);
  }
  EXPECT_GT(whole.epoch(), 1);
  for (int micro_batch = 0; micro_batch < 40; ++micro_batch) {
    Loader again(samples(), options);
    again.seek(positions[micro_batch]);
    const Batch& batch = again.next();
    EXPECT_THAT(micro_batches[micro_batch],
                testing::ElementsAreArray(batch.token_ids.begin(), batch.token_ids.begin() + batch.tokens))
        << micro_batch;
  }
}

TEST(Mixture, RefusesWhatCannotBeMixed) {
  EXPECT_THAT(
      [] {
        mixture({1, 1}, Numbers(100, 10), Numbers(100, 0));
      },
      testing::ThrowsMessage<Error>(HasSubstr("source 1 has no samples")));
  EXPECT_THAT(
      [] {
        mixture({1, 0}, Numbers(100, 10), Numbers(100, 10));
      },
      testing::ThrowsMessage<Error>(HasSubstr("must be more than 0")));
  EXPECT_THAT([] { mixture({1}, Numbers(100, 10), Numbers(100, 10)); },
              testing::ThrowsMessage<Error>(HasSubstr("source 0 has a weight and source 1 has none")));
}

}  // namespace
}  // namespace comera::data
