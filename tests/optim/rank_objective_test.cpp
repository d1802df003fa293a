// The objectives of rank adaptation, and the pruning of gates, on tensor trains in a store.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "kernels/cpu/plain/plain_backend.h"
#include "optim/rank_adaptation.h"
#include "tensorized/tt_chain.h"
#include "tensorized/ttm_chain.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"

namespace comera::test {
namespace {

// A TTM, an attention's value and output, and one more layer, with some pruned entries.
class RankObjectives : public testing::Test {
 protected:
  RankObjectives() {
    const TTMShape table{{3, 4, 5}, {2, 3, 2}, {4, 3}};
    const TTShape wide{{2, 3}, {3, 2}, {2, 5, 2}}, flat{{6}, {5}, {4}};
    const TTMCores embedding = TTMCores::add(store_, "embedding", table, 0.3);
    layers_.push_back(
        {.name = "embedding", .cores = embedding.cores, .gates = embedding.gates, .keeps_one = true});
    add("value", wide, 2);
    add("output", wide, -1);
    add("other", flat, -1);
    store_.allocate(host_allocator(), DType::float64, true);
    store_.initialize(3);
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (const ParameterId gate : layers_[l].gates) {
        auto* d = store_.value(gate).data<double>();
        for (std::int64_t i = 0; i < store_.info(gate).shape.elements(); ++i)
          d[i] = 0.3 + 0.15 * static_cast<double>((7 * i + 3 * gate) % 11) + 1e-3 * gate;
      }
    importance_.emplace(store_, layers_);
    kill(0, 0, 1), kill(1, 1, 0), kill(1, 1, 4), kill(3, 0, 2);
    store_.value(layers_[2].gates[0]).data<double>()[1] = -0.2;  // live, as a step may leave it
  }

  void add(const char* name, const TTShape& shape, int needs) {
    const TTCores train = TTCores::add(store_, name, shape);
    layers_.push_back({.name = name, .cores = train.cores, .gates = train.gates, .needs = needs});
  }
  double& gate(int layer, int bond, std::int64_t entry) {
    return store_.value(layers_[layer].gates[bond]).data<double>()[entry];
  }
  // With its slices of both cores.
  void kill(int layer, int bond, std::int64_t entry) {
    const Tensor before = store_.value(layers_[layer].cores[bond]),
                 behind = store_.value(layers_[layer].cores[bond + 1]);
    const std::int64_t rank = before.shape()[-1], slice = behind.elements() / rank;
    gate(layer, bond, entry) = 0;
    for (std::int64_t at = entry; at < before.elements(); at += rank) before.data<double>()[at] = 0;
    std::fill_n(behind.data<double>() + entry * slice, slice, 0.0);
  }
  std::int64_t rank(int layer, int bond) const { return store_.info(layers_[layer].gates[bond]).shape[0]; }
  // The importance by which entries are ordered.
  double own_importance(int layer, int bond, std::int64_t entry, RankOrder order) {
    const double d = std::abs(gate(layer, bond, entry));
    return order == RankOrder::magnitude ? d : d * std::sqrt(square(layer, bond, entry));
  }
  // The average of the squared derivatives by an entry.
  double& square(int layer, int bond, std::int64_t entry) {
    for (const ParameterState& state : importance_->states())
      if (state.parameter == layers_[layer].gates[bond]) return state.values.data<double>()[entry];
    throw Error("no such gate");
  }
  // The size if entries are killed from the least important on until it is at most the target.
  double size_after_killing(double target, RankOrder order = RankOrder::magnitude) {
    while (size(true) > target) {
      std::array<int, 3> least{-1, 0, 0};
      for (int l = 0; l < 4; ++l)
        for (int b = 0; b < static_cast<int>(layers_[l].gates.size()); ++b)
          for (int i = 0; i < rank(l, b); ++i)
            if (gate(l, b, i) != 0 &&
                (least[0] < 0 ||
                 own_importance(l, b, i, order) < own_importance(least[0], least[1], least[2], order)))
              least = {l, b, i};
      kill(least[0], least[1], least[2]);
    }
    return size(true);
  }
  void kill_bond(int layer, int bond) {
    for (std::int64_t i = 0; i < store_.info(layers_[layer].gates[bond]).shape.elements(); ++i)
      kill(layer, bond, i);
  }

  // By the definitions of the mathematics, entry by entry.
  std::vector<double> l1(const RankedLayer& layer, bool count) {
    std::vector<double> sums{1};
    for (const ParameterId id : layer.gates) {
      double sum = 0;
      for (const double d : read_tensor(store_.value(id))) sum += count ? (d != 0) : std::abs(d);
      sums.push_back(sum);
    }
    sums.push_back(1);
    return sums;
  }
  double modes_of(ParameterId core) {
    const Shape& shape = store_.info(core).shape;
    const std::int64_t modes = shape.elements() / (shape[0] * shape[-1]);
    return static_cast<double>(modes);
  }
  bool removed(const RankedLayer& layer) {
    const auto ranks = l1(layer, true);
    return std::ranges::find(ranks, 0.0) != ranks.end() ||
           (layer.needs >= 0 && removed(layers_[layer.needs]));
  }
  double size(bool count) {
    double total = 0;
    for (const RankedLayer& layer : layers_) {
      if (removed(layer)) continue;
      const auto sums = l1(layer, count);
      for (std::size_t k = 0; k < layer.cores.size(); ++k) {
        total += sums[k] * modes_of(layer.cores[k]) * sums[k + 1];
      }
    }
    return total / units_.size;
  }
  double mean_gate() {
    double sum = 0, live = 0;
    for (const RankedLayer& layer : layers_)
      if (!removed(layer))
        for (const ParameterId id : layer.gates)
          for (const double d : read_tensor(store_.value(id))) sum += d, live += d != 0;
    return sum / live;
  }
  double norm() {
    double sum = 0;
    for (const RankedLayer& layer : layers_)
      for (const ParameterId id : layer.cores)
        for (const double g : read_tensor(store_.value(id))) sum += g * g;
    return sum / units_.norm;
  }

  // The state after one step, with zero gradients of the loss before it. targets: 2.
  RankState descend(const RankStageOptions& options, double loss = 1.5, const RankState& before = {}) {
    const RankAdaptation ranks(store_, layers_, units_, options, *importance_);
    ranks.set_state(before);
    for (ParameterId id = 0; id < store_.size(); ++id)
      write_tensor(store_.gradient(id), std::vector<double>(store_.info(id).shape.elements(), 0));
    harness_.inputs().targets = 2;
    harness_.inputs().rank_target = target_now_.value_or(options.objective.size_target);
    harness_.results() = {};
    harness_.results().loss_sum = 2 * loss;
    harness_.results().target_count = 2;
    harness_.results().gradient_scale = 0.5;
    ranks.descend(harness_.context(), harness_.step_inputs(), harness_.step_results());
    return ranks.state();
  }
  RankState prune(const RankStageOptions& options) {
    const RankAdaptation ranks(store_, layers_, units_, options, *importance_);
    harness_.results() = {};
    const Tensor moments = harness_.tensor({store_.values().elements()}, DType::float64);
    harness_.inputs().rank_target = target_now_.value_or(options.objective.size_target);
    ranks.prune(harness_.context(), moments, moments, harness_.step_inputs(), harness_.step_results());
    return ranks.state();
  }
  // The largest entry of a gate.
  std::int64_t furthest(ParameterId gate) {
    const auto values = read_tensor(store_.value(gate));
    return std::ranges::max_element(values, {}, [](double d) { return std::abs(d); }) - values.begin();
  }
  // Compares the gradient left by descend(), divided by the targets, with that of a function of the
  // parameters. Pruned entries must have none.
  double gradient_error(const std::function<double()>& objective) {
    double worst = 0;
    for (const RankedLayer& layer : layers_) {
      for (const auto* ids : {&layer.cores, &layer.gates})
        for (const ParameterId id : *ids) {
          auto* values = store_.value(id).data<double>();
          const auto* gradient = store_.gradient(id).data<double>();
          const bool is_gate = ids == &layer.gates;
          const std::int64_t stays = is_gate && layer.keeps_one ? furthest(id) : -1;
          for (std::int64_t i = 0; i < store_.info(id).shape.elements(); ++i) {
            if (values[i] == 0) {
              EXPECT_EQ(gradient[i], 0) << store_.info(id).name << " " << i;
              continue;
            }
            if (i == stays) {
              EXPECT_EQ(gradient[i], 0) << "it cannot die";
              continue;
            }
            const double step = 1e-5, value = values[i];
            values[i] = value + step;
            const double above = objective();
            values[i] = value - step;
            const double below = objective();
            values[i] = value;
            const double error = std::abs(gradient[i] / 2 - (above - below) / (2 * step));
            worst = larger_or_nan(worst, error / (is_gate ? 1 : 0.1));
          }
        }
    }
    return worst;
  }

  ParameterStore store_;
  std::vector<RankedLayer> layers_;
  std::optional<GateImportance> importance_;
  RankUnits units_{.size = 400, .norm = 77};
  Harness harness_{plain_backend()};
  std::optional<double> target_now_;  // of a stage that has not to be at its target yet
};

RankStageOptions early(double gamma, double beta, RankPenalty penalty = RankPenalty::l1_size) {
  RankStageOptions options;
  options.objective.gamma = gamma, options.objective.beta = beta, options.objective.penalty = penalty;
  return options;
}

RankStageOptions late(double size_target) {
  RankStageOptions options;
  options.objective.stage = RankStage::compress;
  options.objective.size_target = size_target;
  options.objective.beta = 0;
  options.objective.order = RankOrder::magnitude;
  return options;
}

TEST_F(RankObjectives, UnitsAreThoseOfTheCores) {
  double size = 0;
  for (const RankedLayer& layer : layers_)
    for (const ParameterId id : layer.cores) size += static_cast<double>(store_.info(id).shape.elements());
  const RankUnits units = measure_rank_units(store_, layers_);
  EXPECT_EQ(units.size, size);
  units_.norm = 1;
  EXPECT_NEAR(units.norm, norm(), 1e-9);
}

TEST_F(RankObjectives, EarlyGradientsAreThoseOfThePenalties) {
  descend(early(0.7, 0.4));
  EXPECT_LT(gradient_error([&] { return 0.7 * size(false) + 0.4 * norm(); }), 1e-8);
  descend(early(0.7, 0.4, RankPenalty::mean_gate));
  EXPECT_LT(gradient_error([&] { return 0.7 * mean_gate() + 0.4 * norm(); }), 1e-8);
}

TEST_F(RankObjectives, ARemovedLayerAndTheOneThatNeedsItHaveNoPenalty) {
  kill_bond(2, 1);
  const RankState state = descend(early(0.7, 0));
  EXPECT_NEAR(state.size, size(true), 1e-12);
  for (int layer : {1, 2})
    for (const ParameterId id : layers_[layer].gates)
      for (const double g : read_tensor(store_.gradient(id))) EXPECT_EQ(g, 0);
  EXPECT_LT(gradient_error([&] { return 0.7 * size(false); }), 1e-8);
}

TEST_F(RankObjectives, TheStateSaysWhatIsMeasured) {
  const RankState state = descend(early(0.7, 0.4), 1.5, {.loss_average = 0.3, .loss_weight = 0.5});
  EXPECT_NEAR(state.size, size(true), 1e-12);
  EXPECT_NEAR(state.penalty, size(false), 1e-12);
  EXPECT_NEAR(state.norm_ratio, norm(), 1e-12);
  EXPECT_NEAR(state.smoothed_loss, (0.98 * 0.3 + 0.02 * 1.5) / (0.98 * 0.5 + 0.02), 1e-12);
}

// (L̃ - L₀) / L̃ against (s - s₀) / s, a hair's breadth on both sides.
TEST_F(RankObjectives, TheBranchIsDecidedByTheLargerGap) {
  const double s = size(true), loss = 1.5;
  RankStageOptions options = late(0.5 * s);
  for (const double side : {-1e-9, 1e-9}) {
    options.objective.loss_target = 0.5 * loss - side;
    const RankState state = descend(options, loss);
    EXPECT_NEAR(state.loss_gap, 0.5, 1e-8);
    EXPECT_NEAR(state.size_gap, 0.5, 1e-12);
    EXPECT_EQ(state.branch, static_cast<double>(side > 0 ? RankBranch::loss : RankBranch::size));
  }
  options.objective.loss_target = 0.5 * loss;
  EXPECT_EQ(descend(options, loss).branch, static_cast<double>(RankBranch::loss)) << "equal gaps";
  options.objective.loss_target = 0;
  EXPECT_EQ(descend(options, loss).branch, static_cast<double>(RankBranch::size))
      << "without a target of loss";
}

TEST_F(RankObjectives, WeightsOfTheGapsCanBeGiven) {
  const double s = size(true);
  RankStageOptions options = late(s - 0.1);
  options.objective.loss_target = 1, options.objective.loss_weight = 3;
  for (const double side : {-1e-6, 1e-6}) {
    options.objective.size_weight = 15 - side;
    const RankState state = descend(options, 1.5);
    EXPECT_NEAR(state.loss_gap, 1.5, 1e-12);
    EXPECT_EQ(state.branch, static_cast<double>(side > 0 ? RankBranch::loss : RankBranch::size));
  }
}

TEST_F(RankObjectives, LateGradients) {
  const double s = size(true);
  RankStageOptions options = late(0.2 * s);
  options.objective.smallest_first = options.objective.relative_size = false;
  descend(options);
  EXPECT_LT(gradient_error([&] { return 10.1 * size(false); }), 1e-8);
  options.objective.relative_size = true;
  harness_.inputs().rank_urgency = 5;
  descend(options);
  EXPECT_LT(gradient_error([&] { return 5 * 10.1 * size(false) / s; }), 1e-8) << "s is not descended";
  harness_.inputs().rank_urgency = 1;
  options.objective.loss_target = 1e-6;
  descend(options, 100);
  EXPECT_LT(gradient_error([&] { return 0.01 / 1.1 * size(false) / s; }), 1e-8) << "the loss goes first";
  options.objective.size_target = s;
  descend(options, 100);
  EXPECT_LT(gradient_error([&] { return 0.0; }), 1e-12) << "hold";
}

// The subgradient of max{w₁ (L - L₀), w₂ (S - S₀)} + ρ_L L + ρ_S S, over the weight of the loss in it.
TEST_F(RankObjectives, TheWeightsWeighTheBranchThatIsDescended) {
  const double s = size(true);
  RankStageOptions options = late(0.2 * s);
  options.objective.smallest_first = options.objective.relative_size = options.objective.hold = false;
  options.objective.weighted_branches = true;
  options.objective.loss_target = 1;
  options.objective.loss_weight = 0.5, options.objective.size_weight = 7;
  EXPECT_EQ(descend(options, 1.5).branch, static_cast<double>(RankBranch::size));
  EXPECT_LT(gradient_error([&] { return (7 + 0.01) / 0.1 * size(false); }), 1e-8);
  options.objective.loss_weight = 20, options.objective.size_weight = 0.25;
  EXPECT_EQ(descend(options, 1.5).branch, static_cast<double>(RankBranch::loss));
  EXPECT_LT(gradient_error([&] { return 0.01 / (20 + 0.1) * size(false); }), 1e-8);
  options.objective.loss_weight = options.objective.size_weight = 0;  // 1 / L and 1 / s
  descend(options, 1.5);
  EXPECT_LT(gradient_error([&] { return (1 / s + 0.01) / 0.1 * size(false); }), 1e-8);
  options.objective.loss_target = 0.01;
  descend(options, 1.5);
  EXPECT_LT(gradient_error([&] { return 0.01 / (1 / 1.5 + 0.1) * size(false); }), 1e-8);
}

// Whatever the branch: Adam's moments would follow another scale only slowly.
TEST_F(RankObjectives, TheLossKeepsItsWeight) {
  for (const double target : {0.0, 0.5}) {
    RankStageOptions options = late(0.9 * size(true));
    options.objective.loss_target = target;
    const RankAdaptation ranks(store_, layers_, units_, options, *importance_);
    write_tensor(store_.gradients(), std::vector<double>(store_.gradients().elements(), 1));
    harness_.results().loss_sum = harness_.results().target_count = 2;
    ranks.descend(harness_.context(), harness_.step_inputs(), harness_.step_results());
    EXPECT_EQ(store_.gradient(layers_[1].cores[0]).data<double>()[0], 1);
  }
}

// With smallest_first, only entries that must be pruned for the target get the full penalty.
TEST_F(RankObjectives, TheSmallestArePulled) {
  RankStageOptions options = late(0.5 * size(true));
  options.objective.relative_size = false;
  harness_.inputs().rank_urgency = 5;
  descend(options);
  std::vector<double> pulled, spared;
  const double full = 5 * 10.1, rest = 0.1;  // the urgency applies to those that have to be pruned
  const auto slope = [&](int layer, int bond) {
    const auto sums = l1(layers_[layer], false);
    return (sums[bond] * modes_of(layers_[layer].cores[bond]) +
            sums[bond + 2] * modes_of(layers_[layer].cores[bond + 1])) /
           units_.size;
  };
  for (int l = 0; l < 4; ++l)
    for (int b = 0; b < static_cast<int>(layers_[l].gates.size()); ++b)
      for (std::int64_t i = 0; i < rank(l, b); ++i) {
        const double d = gate(l, b, i), g = store_.gradient(layers_[l].gates[b]).data<double>()[i] / 2;
        if (d == 0 || (layers_[l].keeps_one && i == furthest(layers_[l].gates[b]))) continue;
        const double weight = std::abs(g) / slope(l, b);
        EXPECT_TRUE(std::abs(weight - full) < 1e-9 || std::abs(weight - rest) < 1e-9) << weight;
        (weight > 0.5 ? pulled : spared).push_back(std::abs(d));
      }
  ASSERT_FALSE(pulled.empty());
  ASSERT_FALSE(spared.empty());
  EXPECT_LT(std::ranges::max(pulled), std::ranges::min(spared));
  // Without those pulled, the model has its target, and not without all but the largest of them.
  const double largest = std::ranges::max(pulled);
  for (const bool all : {false, true}) {
    for (int l = 0; l < 4; ++l)
      for (int b = 0; b < static_cast<int>(layers_[l].gates.size()); ++b)
        for (std::int64_t i = 0; i < rank(l, b); ++i)
          if (std::abs(gate(l, b, i)) < largest + (all ? 1e-12 : -1e-12)) kill(l, b, i);
    EXPECT_EQ(size(true) <= options.objective.size_target, all);
  }
}

TEST_F(RankObjectives, DeathIsForGoodAndWholeAndSparesOneWhereOneIsKept) {
  RankStageOptions options = early(0, 0);
  options.threshold = 0.5;
  const double before = size(true);
  const RankState state = prune(options);
  EXPECT_GT(state.pruned, 0);
  EXPECT_LT(state.size_left, before);
  EXPECT_NEAR(state.size_left, size(true), 1e-12);
  double live = 0;
  for (const RankedLayer& layer : layers_)
    for (std::size_t b = 0; b < layer.gates.size(); ++b) {
      const auto gates = read_tensor(store_.value(layer.gates[b]));
      const auto before_core = read_tensor(store_.value(layer.cores[b])),
                 behind = read_tensor(store_.value(layer.cores[b + 1]));
      for (std::size_t i = 0; i < gates.size(); ++i) {
        EXPECT_TRUE(gates[i] == 0 || gates[i] > 0.5);
        live += gates[i] != 0;
        if (gates[i] != 0) continue;
        for (std::size_t at = i; at < before_core.size(); at += gates.size()) EXPECT_EQ(before_core[at], 0);
        const std::size_t slice = behind.size() / gates.size();
        for (std::size_t at = 0; at < slice; ++at) EXPECT_EQ(behind[i * slice + at], 0);
      }
    }
  EXPECT_EQ(state.live, live);
  options.threshold = 100;
  const RankState all = prune(options);
  EXPECT_EQ(all.removed, 3);
  for (const ParameterId id : layers_[0].gates)
    EXPECT_EQ(std::ranges::count_if(read_tensor(store_.value(id)), [](double d) { return d != 0; }), 1);
}

TEST_F(RankObjectives, WhoNeedsARemovedLayerIsRemovedWithIt) {
  for (std::int64_t i = 0; i < rank(2, 0); ++i) gate(2, 0, i) = 1e-4;
  RankStageOptions options = early(0, 0);
  options.threshold = 1e-3;
  const RankState state = prune(options);
  EXPECT_EQ(state.removed, 2);
  for (const int layer : {1, 2})
    for (const ParameterId core : layers_[layer].cores)
      for (const double g : read_tensor(store_.value(core))) EXPECT_EQ(g, 0);
}

TEST_F(RankObjectives, ALateStageTakesNoMoreThanItsTargetAsksFor) {
  for (const double ratio : {0.9, 0.7, 0.5}) {
    RankStageOptions options = late(ratio * size(true));
    options.threshold = 100;
    const auto values = read_tensor(store_.values());
    const double expected = size_after_killing(options.objective.size_target);
    write_tensor(store_.values(), values);
    EXPECT_NEAR(prune(options).size_left, expected, 1e-12);
    EXPECT_EQ(prune(options).pruned, 0) << "it has its size";
  }
}

// From the loss's own gradient: penalties do not count, nor does a skipped step.
TEST_F(RankObjectives, ImportanceIsTheAverageOfSquaredDerivatives) {
  const RankAdaptation ranks(store_, layers_, units_, early(0.7, 0.4), *importance_);
  std::vector<double> expected(importance_->values().elements(), 0);
  for (int step = 0; step < 4; ++step) {
    const bool skipped = step == 2;
    std::size_t at = 0;
    for (const RankedLayer& layer : layers_)
      for (const ParameterId id : layer.gates) {
        auto* gradient = store_.gradient(id).data<double>();
        for (std::int64_t i = 0; i < store_.info(id).shape.elements(); ++i, ++at) {
          gradient[i] = std::sin(static_cast<double>(at * (step + 1)));
          if (!skipped) expected[at] = 0.99 * expected[at] + 0.01 * std::pow(gradient[i] / 8, 2);
        }
      }
    harness_.results() = {};
    harness_.results().loss_sum = harness_.results().target_count = 8;
    harness_.results().gradient_scale = 0.05;
    harness_.results().nonfinite = skipped ? 1 : 0;
    ranks.descend(harness_.context(), harness_.step_inputs(), harness_.step_results());
  }
  const auto values = read_tensor(importance_->values());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-15);
}

TEST_F(RankObjectives, TheLeastImportantAreTakenFirst) {
  for (int l = 0; l < 4; ++l)
    for (int b = 0; b < static_cast<int>(layers_[l].gates.size()); ++b)
      for (std::int64_t i = 0; i < rank(l, b); ++i)
        square(l, b, i) = std::pow(static_cast<double>((5 * i + 3 * b + 7 * l) % 13 + 1), 2) + 0.01 * l;
  RankStageOptions options = late(0.6 * size(true));
  options.objective.order = RankOrder::fisher;
  options.objective.relative_size = false;
  options.threshold = 100;
  descend(options);  // without a gradient of the loss: all squares fall by the same factor
  double pulled = 0, spared = 1e9;
  for (int l = 0; l < 4; ++l)
    for (int b = 0; b < static_cast<int>(layers_[l].gates.size()); ++b) {
      std::int64_t stays = 0;
      for (std::int64_t i = 0; i < rank(l, b); ++i)
        if (own_importance(l, b, i, RankOrder::fisher) > own_importance(l, b, stays, RankOrder::fisher))
          stays = i;
      const auto sums = l1(layers_[l], false);
      const double slope =
          (sums[b] * modes_of(layers_[l].cores[b]) + sums[b + 2] * modes_of(layers_[l].cores[b + 1])) /
          units_.size;
      for (std::int64_t i = 0; i < rank(l, b); ++i) {
        const double g = std::abs(store_.gradient(layers_[l].gates[b]).data<double>()[i]) / 2;
        if (gate(l, b, i) == 0) continue;
        if (layers_[l].keeps_one && i == stays) {
          EXPECT_EQ(g, 0) << "it cannot die";
          continue;
        }
        const double importance = own_importance(l, b, i, RankOrder::fisher);
        if (g > 1 * slope)
          pulled = std::max(pulled, importance);
        else
          spared = std::min(spared, importance);
      }
    }
  EXPECT_GT(pulled, 0);
  EXPECT_LT(pulled, spared);
  const auto values = read_tensor(store_.values());
  const double expected = size_after_killing(options.objective.size_target, RankOrder::fisher);
  write_tensor(store_.values(), values);
  const double by_magnitude = size_after_killing(options.objective.size_target);
  write_tensor(store_.values(), values);
  EXPECT_NE(expected, by_magnitude) << "the case tells the orders apart";
  EXPECT_NEAR(prune(options).size_left, expected, 1e-12);
}

// Entries that need not be pruned yet are neither penalised nor pruned, however small they are.
TEST_F(RankObjectives, ALateStageTakesNoMoreThanIsDueNow) {
  const double s = size(true);
  RankStageOptions options = late(0.3 * s);
  options.objective.relative_size = false;
  target_now_ = s;
  EXPECT_EQ(descend(options).branch, static_cast<double>(RankBranch::size));
  EXPECT_LT(gradient_error([&] { return 0.1 * size(false); }), 1e-8) << "all are spared";
  options.threshold = 100;
  EXPECT_EQ(prune(options).pruned, 0);
  target_now_ = 0.7 * s;
  const auto values = read_tensor(store_.values());
  const double expected = size_after_killing(0.7 * s);
  write_tensor(store_.values(), values);
  EXPECT_NEAR(prune(options).size_left, expected, 1e-12);
  EXPECT_GT(size(true), 0.5 * s);
}

}  // namespace
}  // namespace comera::test
