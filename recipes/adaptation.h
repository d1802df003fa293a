#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optim/rank_adaptation.h"

namespace comera {

// What a phase does with the ranks.
enum class PhaseObjective : std::uint8_t {
  fixed,       // nothing
  regularize,  // penalises size and norms together with the loss
  compress,    // prunes to a target size
};

// Constants of the two stages; docs/guide/rank-adaptation.md lists them with their sources.
enum class RankPreset : std::uint8_t {
  standard,   // "default"
  paper,      // as in the paper
  reference,  // as in the authors' code
};

// The base of target_ratio.
enum class TargetBase : std::uint8_t {
  phase_start,  // the size of the tensor trains at the start of the phase
  initial,      // the same at the start of training
  dense,        // the dense matrices that the tensor trains replace
};

// [phase.adaptation]: absent keys get the preset's values.
struct AdaptationSection {
  RankPreset preset = RankPreset::standard;
  std::optional<double> target_ratio;  // compress: exactly one of target_ratio and target_size
  std::optional<TargetBase> target_of;
  std::string target_size;            // of the whole model in fp32, such as "3.2MB"
  std::optional<double> target_loss;  // L₀
  std::optional<RankPenalty> penalty;
  std::optional<double> gamma, beta;  // γ, β
  std::optional<double> threshold;    // τ
  std::optional<double> rho_loss, rho_size;
  std::optional<double> loss_weight, size_weight;
  std::optional<double> smoothing;
  std::optional<bool> weighted_branches, hold, relative_size, smallest_first;
  std::optional<RankOrder> order;
  std::optional<double> urgency, shrink_share;
  std::int64_t compact_interval = 1000;  // steps; 0: only at the phase's end
  friend bool operator==(const AdaptationSection&, const AdaptationSection&) = default;
};

// A phase's constants, with the preset's for absent keys. The target size of a phase with objective
// `compress` is known when it begins: RankObjectiveOptions::size_target is left at 0.
struct ResolvedAdaptation {
  RankStageOptions stage;
  double urgency = 1;       // of the size's pull when shrink_share of the phase is done
  double shrink_share = 0;  // share of the phase in which the urgency rises and the due size falls to s₀; 0:
                            // the urgency stays 1, and s₀ is due at once
};
ResolvedAdaptation resolve(const AdaptationSection& section, PhaseObjective objective);

// The section with the preset's constants for absent keys that such a phase uses.
AdaptationSection with_preset(AdaptationSection section, PhaseObjective objective);

// Keys of [phase.adaptation] that a phase with this objective does not use.
std::vector<std::string> idle_adaptation_keys(PhaseObjective objective);

// The bytes of "3.2MB", "900 kB", "5.9MiB" or "1485795"; nothing for other text.
std::optional<double> parse_size(const std::string& text);

}  // namespace comera
