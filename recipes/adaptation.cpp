#include "recipes/adaptation.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace comera {

namespace {

ResolvedAdaptation preset_of(RankPreset preset) {
  ResolvedAdaptation constants;  // whose initialisers are the default's
  RankObjectiveOptions& objective = constants.stage.objective;
  constants.urgency = 30;
  constants.shrink_share = 0.5;
  if (preset == RankPreset::standard) return constants;
  objective.smallest_first = objective.relative_size = false;
  constants.urgency = 1;
  constants.shrink_share = 0;
  if (preset == RankPreset::paper) return constants;
  objective.penalty = RankPenalty::mean_gate;
  objective.beta = 0;
  objective.smoothing = 0;  // the raw loss
  objective.hold = false;
  return constants;
}

}  // namespace

ResolvedAdaptation resolve(const AdaptationSection& section, PhaseObjective objective) {
  ResolvedAdaptation resolved = preset_of(section.preset);
  RankObjectiveOptions& to = resolved.stage.objective;
  to.stage = objective == PhaseObjective::late ? RankStage::late : RankStage::early;
  to.penalty = section.penalty.value_or(to.penalty);
  to.gamma = section.gamma.value_or(to.gamma);
  // β follows a γ that is given, in the early stage's balance of gates and cores.
  to.beta = section.beta.value_or(to.beta > 0 && to.stage == RankStage::early ? to.gamma : to.beta);
  to.rho_loss = section.rho_loss.value_or(to.rho_loss);
  to.rho_size = section.rho_size.value_or(to.rho_size);
  to.loss_target = section.target_loss.value_or(section.preset == RankPreset::reference ? 0.8 : 0.0);
  to.loss_weight = section.loss_weight.value_or(0);
  to.size_weight = section.size_weight.value_or(0);
  to.smoothing = section.smoothing.value_or(to.smoothing);
  to.hold = section.hold.value_or(to.hold);
  to.relative_size = section.relative_size.value_or(to.relative_size);
  to.smallest_first = section.smallest_first.value_or(to.smallest_first);
  resolved.stage.threshold = section.threshold.value_or(resolved.stage.threshold);
  resolved.urgency = section.urgency.value_or(resolved.urgency);
  resolved.shrink_share = section.shrink_share.value_or(resolved.shrink_share);
  return resolved;
}

std::optional<double> parse_size(const std::string& text) {
  constexpr std::pair<const char*, double> units[] = {{"", 1},       {"B", 1},         {"kB", 1e3},
                                                      {"KB", 1e3},   {"MB", 1e6},      {"GB", 1e9},
                                                      {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || !(number > 0) || !std::isfinite(number)) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  if (unit.starts_with(' ')) unit.erase(0, 1);
  for (const auto& [name, bytes] : units)
    if (unit == name) return number * bytes;
  return std::nullopt;
}

}  // namespace comera
