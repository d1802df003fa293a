// The death of gates, on trains of a store.
#include "tests/optim/rank_objectives.h"

namespace comera::test {
namespace {

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

// Of the loss's own gradient: what is added for the penalties does not count, nor a step that is skipped.
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

// What has not to die yet is neither pulled nor killed, however small it is.
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
