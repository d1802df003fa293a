#include "data/masking/masking.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"
#include "storage/hash.h"

namespace comera::data {
namespace {

std::uint64_t bits_of(const MaskingKey& key) {
  return storage::mix64(storage::mix64(storage::mix64(key.seed) ^ static_cast<std::uint64_t>(key.epoch)) ^
                        static_cast<std::uint64_t>(key.sample));
}

// Stream 0 chooses targets, 1 the kind of replacement, 2 the random piece.
std::uint64_t draw_of(std::uint64_t sample, std::int64_t position, int stream) {
  return storage::mix64(sample ^ storage::mix64(static_cast<std::uint64_t>(3 * position + stream)));
}

}  // namespace

Masking::Masking(const MaskingOptions& options, std::int32_t vocabulary, const SpecialIds& special)
    : options_(options), vocabulary_(vocabulary), special_(special) {
  const auto fraction = [](double value) { return value >= 0 && value <= 1; };
  if (!fraction(options.probability) || !fraction(options.replace_mask) ||
      !fraction(options.replace_random) || options.replace_mask + options.replace_random > 1 + 1e-9)
    throw UsageError(fmt::format(
        "masking takes a probability from 0 to 1 and fractions of [MASK] and of random pieces that sum to "
        "at most 1; given were {}, {} and {}",
        options.probability, options.replace_mask, options.replace_random));
  COMERA_CHECK(!options.words || options.words->vocabulary() >= vocabulary,
               "whole words are known of {} pieces, but the vocabulary has {}", options.words->vocabulary(),
               vocabulary);
  sorted_special_ = {special.pad, special.unknown, special.cls, special.separator, special.mask};
  std::sort(sorted_special_.begin(), sorted_special_.end());
  sorted_special_.erase(std::unique(sorted_special_.begin(), sorted_special_.end()), sorted_special_.end());
  if (vocabulary <= static_cast<std::int64_t>(sorted_special_.size()))
    throw UsageError(
        fmt::format("a vocabulary of {} pieces has no ordinary piece to put for a masked one", vocabulary));
}

void Masking::choose_tokens(std::uint64_t sample, const std::vector<std::int32_t>& ids,
                            std::vector<std::int32_t>& positions) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  std::uint64_t least = ~std::uint64_t{0};
  std::int64_t likeliest = -1;  // the eligible token closest to being drawn
  for (std::int64_t i = 0; i < count; ++i) {
    if (special_.contains(ids[i])) continue;
    const std::uint64_t draw = draw_of(sample, i, 0);
    if (likeliest < 0 || draw < least) {
      least = draw;
      likeliest = i;
    }
    if (storage::unit_interval(draw) < options_.probability)
      positions.push_back(static_cast<std::int32_t>(i));
  }
  if (positions.empty() && likeliest >= 0) positions.push_back(static_cast<std::int32_t>(likeliest));
  if (options_.most_targets > 0 && static_cast<std::int64_t>(positions.size()) > options_.most_targets)
    positions.resize(static_cast<std::size_t>(options_.most_targets));
}

void Masking::choose_words(std::uint64_t sample, const std::vector<std::int32_t>& ids,
                           std::vector<std::int32_t>& positions) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t most = options_.most_targets > 0 ? options_.most_targets : count;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) positions.push_back(static_cast<std::int32_t>(i));
  };
  std::uint64_t least = ~std::uint64_t{0};
  std::int64_t likeliest = -1, likeliest_end = -1;
  bool full = false;
  for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
    end = begin + 1;
    if (special_.contains(ids[begin])) continue;
    while (end < count && end - begin < WordTable::longest && options_.words->joins(ids[end - 1], ids[end]))
      ++end;
    const std::uint64_t draw = draw_of(sample, begin, 0);
    if (likeliest < 0 || draw < least) {
      least = draw;
      likeliest = begin;
      likeliest_end = end;
    }
    if (full || storage::unit_interval(draw) >= options_.probability) continue;
    // A word is masked completely or not at all.
    full = static_cast<std::int64_t>(positions.size()) + end - begin > most;
    if (!full) add(begin, end);
  }
  if (positions.empty() && likeliest >= 0) add(likeliest, std::min(likeliest_end, likeliest + most));
}

void Masking::apply(const MaskingKey& key, std::vector<std::int32_t>& ids, Targets& targets) const {
  targets.positions.clear();
  targets.ids.clear();
  if (options_.probability <= 0 || options_.most_targets == 0) return;
  const std::uint64_t sample = bits_of(key);
  options_.words ? choose_words(sample, ids, targets.positions)
                 : choose_tokens(sample, ids, targets.positions);
  const std::int64_t ordinary = vocabulary_ - static_cast<std::int64_t>(sorted_special_.size());
  for (const std::int32_t position : targets.positions) {
    std::int32_t& id = ids[position];
    targets.ids.push_back(id);
    const double kind = storage::unit_interval(draw_of(sample, position, 1));
    if (kind < options_.replace_mask) {
      id = special_.mask;
    } else if (kind < options_.replace_mask + options_.replace_random) {
      // Drawn from the ordinary pieces: numbers below `ordinary`, shifted past each special one.
      id = static_cast<std::int32_t>(storage::unit_interval(draw_of(sample, position, 2)) *
                                     static_cast<double>(ordinary));
      for (const std::int32_t special : sorted_special_) id += id >= special;
    }
  }
}

std::int64_t Masking::count_targets(const MaskingKey& key, std::int64_t length) const {
  COMERA_CHECK(counts_by_length(), "targets of whole words cannot be counted by a sequence's length");
  if (options_.probability <= 0 || options_.most_targets == 0 || length < 3) return 0;
  const std::uint64_t sample = bits_of(key);
  std::int64_t count = 0;
  // As unit_interval(draw) < probability, without floats.
  const auto below = static_cast<std::uint64_t>(std::ceil(options_.probability * 0x1.0p53));
  for (std::int64_t i = 1; i + 1 < length; ++i) count += (draw_of(sample, i, 0) >> 11) < below ? 1 : 0;
  count = std::max<std::int64_t>(count, 1);
  return options_.most_targets > 0 ? std::min(count, options_.most_targets) : count;
}

}  // namespace comera::data
