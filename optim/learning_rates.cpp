#include "optim/learning_rates.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/core/check.h"

namespace comera {

static_assert(static_cast<int>(RateGroup::dense_table) + 1 == max_parameter_groups);

double LearningRates::largest() const {
  double largest = 0;
  for_each([&](const char*, double rate) { largest = std::max(largest, rate); });
  return largest;
}

std::string LearningRates::text(const char* is) const {
  std::vector<std::string> parts;
  for_each(
      [&](const char* name, double rate) { parts.push_back(fmt::format("{}{}{:.2g}", name, is, rate)); });
  return fmt::format("{}", fmt::join(parts, ", "));
}

RateGroup group_of(const ParameterInfo& parameter, const OptimizerOptions& options) {
  COMERA_CHECK(parameter.role != ParameterRole::frozen, "{} is not trained and has no learning rate",
               parameter.name);
  if (parameter.embedding)
    return parameter.role == ParameterRole::core ? RateGroup::embedding : RateGroup::dense_table;
  if (options.kind == OptimizerKind::muon && parameter.matrix_rows > 0) return RateGroup::core;
  switch (parameter.role) {
    case ParameterRole::core:
      return RateGroup::core;
    case ParameterRole::gate:
      return RateGroup::gate;
    case ParameterRole::dense:
    case ParameterRole::frozen:
      break;
  }
  return RateGroup::other;
}

StepRates::StepRates(const LearningRates& highest, double factor) : rates_{} {
  set(RateGroup::core, factor * highest.cores);
  set(RateGroup::gate, factor * highest.gates);
  set(RateGroup::other, factor * highest.other);
  set(RateGroup::embedding, factor * highest.embedding.value_or(highest.cores));
  set(RateGroup::dense_table, factor * highest.embedding.value_or(highest.other));
}

void StepRates::write_to(StepInputs& inputs) const { std::ranges::copy(rates_, inputs.learning_rate); }

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
    case RateGroup::other:
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
  if (scales(RateGroup::other)) rates.other *= factor;
  if (scales(RateGroup::embedding) && rates.embedding) *rates.embedding *= factor;
  return rates;
}

}  // namespace comera
