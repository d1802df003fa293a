#pragma once

#include <cstdint>

#include "kernels/shared/host_device.h"

// The ranks of a model's tensor trains in the form that the operations of rank adaptation use
// (kernels/ops/tensor_trains/ranks.h): three tables of plain structs in device memory, over the flat
// parameter vector.
//
// A bond joins two neighbouring cores and has a gate with one entry per rank; an entry is live unless it is
// 0. A layer is removed if one of its bonds has no live entry, or if the layer that it needs is removed,
// because then its output is unused.
namespace comera {

struct RankLayer {
  std::int32_t first_core = 0;  // in the table of cores
  std::int32_t first_bond = 0;  // in the table of bonds
  std::int32_t bonds = 0;       // cores - 1; bond b joins cores b and b + 1
  std::int32_t keeps_one = 0;   // 1: no bond loses its last live entry
  std::int32_t needs = -1;      // a later layer of the table, or -1
};

struct RankCore {
  std::int64_t offset = 0;                      // in the parameters
  std::int64_t left = 1, modes = 1, right = 1;  // (left, modes, right), row-major
  COMERA_HOST_DEVICE std::int64_t elements() const { return left * modes * right; }
};

struct RankBond {
  std::int64_t offset = 0;       // of the gate, in the parameters
  std::int32_t count = 0;        // entries
  std::int32_t first_entry = 0;  // index among the entries of all bonds
  std::int32_t core = 0;         // left core, in the table of cores; the right core follows it
};

// The state of rank adaptation between steps, and the results of the last one. All members are double, so
// that it is a tensor as well.
struct RankState {
  double loss_average = 0;  // exponential average of the loss, before division by
  double loss_weight = 0;   // 1 - smoothing^steps
  // Written by RankObjective:
  double smoothed_loss = 0;  // L̃ = loss_average / loss_weight
  double size = 1;           // s = S / S_init
  double penalty = 0;        // P
  double norm_ratio = 1;     // Ω
  double loss_gap = 0;       // `compress`: how far L̃ and s are from their targets
  double size_gap = 0;
  double branch = 0;  // RankBranch
  // Written by PruneRanks:
  double size_left = 1;  // s after it
  double live = 0;       // entries of gates
  double removed = 0;    // layers
  double pruned = 0;     // entries pruned in this step
};
inline constexpr std::int64_t rank_state_numbers = sizeof(RankState) / sizeof(double);

enum class RankStage : std::uint8_t { regularize, compress };
enum class RankPenalty : std::uint8_t {
  l1_size,    // Ŝ = Σ_layers Σ_k |d_{k-1}|₁ s_k |d_k|₁ / S_init
  mean_gate,  // R = Σ live entries / their number
};

// The order in which gate entries are pruned.
enum class RankOrder : std::uint8_t {
  magnitude,  // the smallest |d| first
  fisher,  // smallest |d| √E[(∂L/∂d)²] first: the loss increase by the diagonal of the Fisher matrix
};
// Decay of the exponential average of squared derivatives.
inline constexpr double importance_smoothing = 0.99;

// The objective of a stage (CoMERA, section 3; docs/guide/rank-adaptation.md), with P one of the penalties, Ω
// = Σ‖G‖² / Σ‖G(0)‖² over the cores, s = S / S_init:
//   regularize  L + γ P + β Ω
//   compress    hold, and s ≤ s₀                                   L + β Ω
//           else, with L₀, if (L̃ - L₀) w₁ ≥ (s - s₀) w₂       L + ρ_S / (v₁ + ρ_L) P + β Ω
//           else                                               L + u (v₂ + ρ_S) / ρ_L P + β Ω
// The paper minimises max{w₁ (L - L₀), w₂ (S - S₀)} and a little of both. Its subgradient is that of (w₁ +
// ρ_L) L + ρ_S P or of ρ_L L + (w₂ + ρ_S) P: with weighted_branches v is w, else 1, as in the authors' code.
// Here both are divided by the loss's weight: the direction is the same. If the loss's weight changed tenfold
// from one step to the next, Adam's moments would have another scale, and its steps would be several times
// too large until the moments had adjusted. w₁ = 1 / L̃ and w₂ = 1 / s unless given. With relative_size, P of
// `compress` is divided by s. With smallest_first, v₂ + ρ_S is for the entries that have to be pruned to
// reach s*, the smallest first by the order; the others get ρ_S / ρ_L P. u is the step's urgency, which may
// rise during the stage, and s* the size due by now, which may fall to s₀ (StepInputs).
struct RankObjectiveOptions {
  RankStage stage = RankStage::regularize;
  RankPenalty penalty = RankPenalty::l1_size;
  double gamma = 0.01;
  double beta = 0.01;
  double rho_loss = 0.1;
  double rho_size = 0.01;
  double loss_target = 0;  // L₀; 0: none, the size is reduced until s₀
  double size_target = 0;  // s₀
  double loss_weight = 0;  // w₁; 0: 1 / L̃
  double size_weight = 0;  // w₂; 0: 1 / s
  double smoothing = 0.98;
  bool weighted_branches = false;
  bool hold = true;
  bool relative_size = true;
  bool smallest_first = true;
  RankOrder order = RankOrder::fisher;

  friend bool operator==(const RankObjectiveOptions&, const RankObjectiveOptions&) = default;
};

enum class RankBranch : std::uint8_t { regularize, loss, size, hold };

// The factors of the penalty's gradient.
struct RankWeights {
  double penalty = 0;
  double spared = 0;  // for entries that need not be pruned
  RankBranch branch = RankBranch::regularize;
  bool smallest_first = false;  // whether the two differ
};

// The rule above. Reads the state's smoothed loss and size, writes its gaps and branch.
COMERA_HOST_DEVICE RankWeights rank_weights(const RankObjectiveOptions& options, double urgency,
                                            RankState& state) {
  RankWeights weights;
  state.loss_gap = 0;
  state.size_gap = 0;
  if (options.stage == RankStage::regularize) {
    weights.penalty = weights.spared = options.gamma;
  } else {
    const bool has_loss_target = options.loss_target > 0 && state.loss_weight > 0;
    const double loss_weight = options.loss_weight > 0
                                   ? options.loss_weight
                                   : 1 / (state.smoothed_loss > 0 ? state.smoothed_loss : 1);
    const double size_weight =
        options.size_weight > 0 ? options.size_weight : 1 / (state.size > 0 ? state.size : 1);
    if (has_loss_target) state.loss_gap = (state.smoothed_loss - options.loss_target) * loss_weight;
    state.size_gap = (state.size - options.size_target) * size_weight;
    const double unit = options.relative_size ? 1 / (state.size > 0 ? state.size : 1) : 1;
    if (options.hold && state.size <= options.size_target) {
      weights.branch = RankBranch::hold;
    } else if (has_loss_target && state.loss_gap >= state.size_gap) {
      weights.branch = RankBranch::loss;
      weights.penalty = weights.spared =
          options.rho_size / ((options.weighted_branches ? loss_weight : 1) + options.rho_loss) * unit;
    } else {
      weights.branch = RankBranch::size;
      weights.penalty = urgency * ((options.weighted_branches ? size_weight : 1) + options.rho_size) /
                        options.rho_loss * unit;
      weights.smallest_first = options.smallest_first;
      weights.spared = options.smallest_first ? options.rho_size / options.rho_loss * unit : weights.penalty;
    }
  }
  state.branch = static_cast<double>(weights.branch);
  return weights;
}

// Adds a step's loss to the exponential average; a non-finite loss is ignored.
COMERA_HOST_DEVICE void average_loss(double smoothing, double loss, RankState& state) {
  if (loss - loss == 0) {
    state.loss_average = smoothing * state.loss_average + (1 - smoothing) * loss;
    state.loss_weight = smoothing * state.loss_weight + (1 - smoothing);
  }
  state.smoothed_loss = state.loss_weight > 0 ? state.loss_average / state.loss_weight : 0;
}

// Suppresses nvcc's check that these may call the given function: each caller passes one of its own side.
#if defined(__CUDACC__)
#define COMERA_CALLS_BACK _Pragma("nv_exec_check_disable")
#else
#define COMERA_CALLS_BACK
#endif

// Σ_k ρ_{k-1} s_k ρ_k of a layer; live(b): live entries of its bond b. 0 if one of them has none.
COMERA_CALLS_BACK
template <class Live>
COMERA_HOST_DEVICE std::int64_t layer_size(const RankLayer& layer, const RankCore* cores, const Live& live) {
  std::int64_t size = 0, left = 1;
  for (int b = 0; b <= layer.bonds; ++b) {
    const std::int64_t right = b < layer.bonds ? live(b) : 1;
    if (right == 0) return 0;
    size += left * cores[layer.first_core + b].modes * right;
    left = right;
  }
  return size;
}

// The smallest threshold such that the model has the target size if no entry of greater importance is pruned;
// 0 if it already has it. size_above(t): its size with only the entries above t.
COMERA_CALLS_BACK
template <class SizeAbove>
COMERA_HOST_DEVICE double threshold_for(double target, const SizeAbove& size_above) {
  if (size_above(0.0) <= target) return 0;
  double low = 0, high = 1;
  for (; size_above(high) > target && high < 1e12; high *= 2) low = high;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    if (size_above(middle) > target)
      low = middle;
    else
      high = middle;
  }
  return high;
}

}  // namespace comera
