#include "training/rates/rate_kinds.h"

#include <algorithm>
#include <iterator>

namespace comera {

const RateKind* rate_kind(const std::string& name) {
  const auto* found =
      std::ranges::find_if(rate_kinds, [&](const RateKind& kind) { return name == kind.name; });
  return found == std::end(rate_kinds) ? nullptr : found;
}

double rate_of(const LearningRates& rates, const RateKind& kind) {
  switch (kind.group) {
    case RateGroup::core:
      return rates.cores;
    case RateGroup::gate:
      return rates.gates;
    case RateGroup::dense:
      return rates.other;
    case RateGroup::embedding:
    case RateGroup::dense_table:
      return rates.embedding.value_or(0);
  }
  return 0;
}

double rate_of(const LearningRates& rates, const RateKind* kind) {
  if (kind != nullptr) return rate_of(rates, *kind);
  for (const double rate : {rates.other, rates.cores, rates.gates, rates.embedding.value_or(0)})
    if (rate > 0) return rate;
  return 0;
}

LearningRates scaled(LearningRates rates, const RateKind* kind, double factor) {
  const auto scales = [&](RateGroup group) { return kind == nullptr || kind->group == group; };
  if (scales(RateGroup::core)) rates.cores *= factor;
  if (scales(RateGroup::gate)) rates.gates *= factor;
  if (scales(RateGroup::dense)) rates.other *= factor;
  if (scales(RateGroup::embedding) && rates.embedding) *rates.embedding *= factor;
  return rates;
}

}  // namespace comera
