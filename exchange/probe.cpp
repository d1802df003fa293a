#include "exchange/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/batching/loader.h"
#include "kernels/core/check.h"
#include "storage/hash.h"
#include "training/inference/fillings.h"
#include "training/inference/inference_engine.h"

namespace comera::exchange {

namespace {

class GivenSamples final : public data::SampleSource {
 public:
  GivenSamples(const std::vector<data::Sample>& samples, std::int64_t vocabulary,
               const data::SpecialIds& special)
      : samples_(samples), vocabulary_(static_cast<std::int32_t>(vocabulary)), special_(special) {}
  std::int32_t vocabulary() const override { return vocabulary_; }
  const data::SpecialIds& special() const override { return special_; }
  std::int64_t count() const override { return std::ssize(samples_); }
  std::int64_t sequences_per_sample() const override { return samples_[0].second > 0 ? 2 : 1; }
  std::int64_t length(std::int64_t sample) const override { return std::ssize(samples_[sample].ids); }
  std::vector<std::int32_t> lengths() const override {
    std::vector<std::int32_t> lengths;
    for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
    return lengths;
  }
  void read(std::int64_t sample, data::Sample& to) override { to = samples_[sample]; }

 private:
  const std::vector<data::Sample>& samples_;
  std::int32_t vocabulary_;
  data::SpecialIds special_;
};

}  // namespace

std::vector<std::vector<double>> answers(const Model& model, const Processor& processor,
                                         const data::SpecialIds& special,
                                         const std::vector<data::Sample>& samples) {
  std::vector<std::vector<double>> found(samples.size());
  if (samples.empty()) return found;
  if (reads_tokens(model.config().head)) {
    run_masked(model, processor, samples, special,
               [&](std::size_t sequence, std::size_t target, std::span<const double> values) {
                 auto& to = found[sequence];
                 to.resize(samples[sequence].targets.positions.size() * values.size());
                 std::ranges::copy(values, to.begin() + static_cast<std::ptrdiff_t>(target * values.size()));
               });
    return found;
  }
  constexpr std::int64_t micro_batch = 1024;
  std::int64_t longest = 0;
  for (const data::Sample& sample : samples) longest = std::max(longest, std::ssize(sample.ids));
  InferenceEngine engine(model,
                         model.config().head == HeadKind::contrastive ? InferenceEngine::Output::mean
                                                                      : InferenceEngine::Output::predictions,
                         processor);
  engine.run(std::make_unique<GivenSamples>(samples, model.config().vocabulary, special),
             data::capacity_for(std::max(micro_batch, longest), longest, 0, model.config().vocabulary),
             [&](std::int64_t sample, std::span<const double> values) {
               found[static_cast<std::size_t>(sample)].assign(values.begin(), values.end());
             });
  return found;
}

std::vector<data::Sample> probes(const EncoderConfig& config, const data::SpecialIds& special) {
  constexpr std::int64_t sequences = 4, longest = 48, shorter = 7;
  const bool separate = reads_sequences(config.head) && config.pairs == PairEncoding::separate;
  const std::int64_t most = std::min(config.max_positions, longest);
  std::vector<data::Sample> samples(sequences);
  for (std::int64_t s = 0; s < sequences; ++s) {
    data::Sample& sample = samples[static_cast<std::size_t>(s)];
    const auto add = [&](std::int64_t tokens) {
      for (std::int64_t i = 0; i < tokens; ++i) {
        const std::uint64_t random =
            storage::mix64(static_cast<std::uint64_t>(s * longest * 2 + std::ssize(sample.ids)));
        const auto id = static_cast<std::int32_t>(random % static_cast<std::uint64_t>(config.vocabulary));
        sample.ids.push_back(i == 0 ? special.cls : id);
        sample.type_ids.push_back(i > tokens / 2 && !separate && config.types > 1 ? 1 : 0);
      }
    };
    const std::int64_t length = std::max(most - shorter * s, std::min<std::int64_t>(most, 2));
    add(length);
    if (separate) {
      sample.second = length;
      add(std::max<std::int64_t>(length / 2, 1));
    }
    sample.targets.positions.resize(sample.ids.size());
    std::iota(sample.targets.positions.begin(), sample.targets.positions.end(), 0);
    sample.targets.ids.resize(sample.ids.size());
  }
  return samples;
}

double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b) {
  COMERA_CHECK(a.size() == b.size(), "answers to {} and to {} samples cannot be compared", a.size(),
               b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    COMERA_CHECK(a[i].size() == b[i].size(), "{} and {} logits cannot be compared", a[i].size(), b[i].size());
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double difference = std::abs(a[i][j] - b[i][j]);
      if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, difference);
    }
  }
  return largest;
}

}  // namespace comera::exchange
