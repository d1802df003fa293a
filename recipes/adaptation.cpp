#include "recipes/adaptation.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace comera {

AdaptationSection with_preset(AdaptationSection section, PhaseObjective objective) {
  const bool compresses = objective == PhaseObjective::compress,
             standard = section.preset == RankPreset::standard, paper = section.preset == RankPreset::paper,
             reference = section.preset == RankPreset::reference;
  const auto preset = [](auto& constant, auto value) { constant = constant.value_or(value); };
  preset(section.penalty, reference ? RankPenalty::mean_gate : RankPenalty::l1_size);
  preset(section.threshold, 0.01);
  preset(section.smoothing, standard ? 0.98 : 0.0);
  if (!compresses) {
    preset(section.gamma, 0.01);
    preset(section.beta, reference ? 0.0 : *section.gamma);  // the balance between gates and cores
    return section;
  }
  if (section.target_ratio) preset(section.target_of, TargetBase::phase_start);
  preset(section.beta, reference ? 0.0 : 0.01);
  preset(section.rho_loss, 0.1);
  preset(section.rho_size, 0.01);
  if (reference) preset(section.target_loss, 0.8);
  preset(section.weighted_branches, paper);
  preset(section.hold, standard);
  preset(section.relative_size, standard);
  preset(section.smallest_first, standard);
  preset(section.order, standard ? RankOrder::fisher : RankOrder::magnitude);
  preset(section.shrink_share, standard ? 0.5 : 0.0);
  if (*section.shrink_share > 0) preset(section.urgency, standard ? 30.0 : 1.0);
  return section;
}

ResolvedAdaptation resolve(const AdaptationSection& given, PhaseObjective objective) {
  const AdaptationSection section = with_preset(given, objective);
  ResolvedAdaptation resolved;
  resolved.stage.threshold = *section.threshold;
  RankObjectiveOptions& to = resolved.stage.objective;
  to.penalty = *section.penalty;
  to.beta = *section.beta;
  to.smoothing = *section.smoothing;
  if (objective != PhaseObjective::compress) {
    to.stage = RankStage::regularize;
    to.gamma = *section.gamma;
    return resolved;
  }
  to.stage = RankStage::compress;
  to.rho_loss = *section.rho_loss;
  to.rho_size = *section.rho_size;
  to.loss_target = section.target_loss.value_or(0);
  to.loss_weight = section.loss_weight.value_or(0);
  to.size_weight = section.size_weight.value_or(0);
  to.weighted_branches = *section.weighted_branches;
  to.hold = *section.hold;
  to.relative_size = *section.relative_size;
  to.smallest_first = *section.smallest_first;
  to.order = *section.order;
  resolved.shrink_share = *section.shrink_share;
  resolved.urgency = section.urgency.value_or(1);
  return resolved;
}

std::vector<std::string> idle_adaptation_keys(PhaseObjective objective) {
  if (objective == PhaseObjective::compress) return {"gamma"};
  return {"target_ratio",  "target_of",      "target_size", "target_loss",       "rho_loss",
          "rho_size",      "loss_weight",    "size_weight", "weighted_branches", "hold",
          "relative_size", "smallest_first", "order",       "urgency",           "shrink_share"};
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
