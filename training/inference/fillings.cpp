#include "training/inference/fillings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "training/inference/inference_engine.h"

namespace comera {

namespace {

// Sequences with their targets; those with more than `most` targets are repeated with different targets.
class MaskedSequences final : public data::SampleSource {
 public:
  struct Part {
    std::size_t sequence, first;  // target
    std::int64_t targets;
  };

  MaskedSequences(const std::vector<data::Sample>& sequences, std::int32_t vocabulary,
                  const data::SpecialIds& special, std::int64_t most)
      : sequences_(sequences), vocabulary_(vocabulary), special_(special) {
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const std::size_t targets = sequences[s].targets.positions.size();
      for (std::size_t first = 0; first < targets; first += most)
        parts_.push_back(
            {s, first, std::min<std::int64_t>(most, static_cast<std::int64_t>(targets - first))});
    }
  }

  const std::vector<Part>& parts() const { return parts_; }
  std::int32_t vocabulary() const override { return vocabulary_; }
  const data::SpecialIds& special() const override { return special_; }
  std::int64_t count() const override { return static_cast<std::int64_t>(parts_.size()); }
  std::int64_t length(std::int64_t sample) const override {
    return static_cast<std::int64_t>(sequences_[parts_[sample].sequence].ids.size());
  }
  std::vector<std::int32_t> lengths() const override {
    std::vector<std::int32_t> lengths;
    for (std::int64_t i = 0; i < count(); ++i) lengths.push_back(static_cast<std::int32_t>(length(i)));
    return lengths;
  }
  bool masked() const override { return true; }
  void read(std::int64_t sample, data::Sample& to) override {
    const Part& part = parts_[sample];
    to = sequences_[part.sequence];
    to.masked = true;
    const auto keep = [&](std::vector<std::int32_t>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(part.first);
      values = {begin, begin + part.targets};
    };
    keep(to.targets.positions);
    keep(to.targets.ids);
  }

 private:
  const std::vector<data::Sample>& sequences_;
  std::int32_t vocabulary_;
  data::SpecialIds special_;
  std::vector<Part> parts_;
};

// The log of the softmax denominator, as an addend to logits.
double log_sum(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

void run_masked(const Model& model, const Processor& processor, const std::vector<data::Sample>& sequences,
                const data::SpecialIds& special, const VisitLogits& visit) {
  constexpr std::int64_t most_tokens = 4096, most_logits = 1 << 21, most_rows = 64;
  const std::int64_t vocabulary = model.config().vocabulary;
  const std::int64_t rows = std::clamp<std::int64_t>(most_logits / vocabulary, 1, most_rows);
  auto samples =
      std::make_unique<MaskedSequences>(sequences, static_cast<std::int32_t>(vocabulary), special, rows);
  if (samples->count() == 0) return;
  std::int64_t longest = 0, tokens = 0, targets = 0;
  for (std::int64_t i = 0; i < samples->count(); ++i) {
    longest = std::max(longest, samples->length(i));
    tokens += samples->length(i);
    targets += samples->parts()[i].targets;
  }
  // No larger than the work: all rows of a micro-batch are computed.
  MicroBatchCapacity capacity =
      data::capacity_for(std::max(longest, std::min(tokens, most_tokens)), longest, 0, vocabulary);
  capacity.masked = std::min(rows, targets);
  const std::vector<MaskedSequences::Part> parts = samples->parts();
  std::vector<std::size_t> visited(parts.size());
  InferenceEngine engine(model, InferenceEngine::Output::logits, processor);
  engine.run(std::move(samples), capacity, [&](std::int64_t sample, std::span<const double> logits) {
    const MaskedSequences::Part& part = parts[sample];
    visit(part.sequence, part.first + visited[sample]++, logits);
  });
}

std::vector<Filling> likeliest(std::span<const double> logits, std::int64_t pieces, std::int64_t count) {
  std::vector<std::int32_t> ids(pieces);
  std::iota(ids.begin(), ids.end(), 0);
  const auto last = ids.begin() + std::min(count, pieces);
  std::partial_sort(ids.begin(), last, ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const double sum = log_sum(logits);
  std::vector<Filling> fillings;
  for (auto id = ids.begin(); id != last; ++id) fillings.push_back({*id, std::exp(logits[*id] - sum)});
  return fillings;
}

Standing standing_of(std::int32_t id, std::span<const double> logits, std::int64_t pieces) {
  Standing standing{.probability = std::exp(logits[id] - log_sum(logits))};
  for (std::int32_t other = 0; other < pieces; ++other)
    if (logits[other] > logits[id] || (logits[other] == logits[id] && other < id)) ++standing.rank;
  return standing;
}

}  // namespace comera
