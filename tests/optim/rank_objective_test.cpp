// The objectives of rank adaptation, on trains of a store.
#include "tests/optim/rank_objectives.h"

namespace comera::test {
namespace {

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

// With smallest_first only entries that must die for the target are pulled with full weight.
TEST_F(RankObjectives, TheSmallestArePulled) {
  RankStageOptions options = late(0.5 * size(true));
  options.objective.relative_size = false;
  harness_.inputs().rank_urgency = 5;
  descend(options);
  std::vector<double> pulled, spared;
  const double full = 5 * 10.1, rest = 0.1;  // the urgency is for those that have to die
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

}  // namespace
}  // namespace comera::test
