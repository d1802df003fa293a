#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "kernels/reference/reference_backend.h"
#include "optim/rank_adaptation.h"
#include "tensorized/decomposition/tt_chain.h"
#include "tensorized/embedding/ttm_chain.h"
#include "tests/support/harness.h"
#include "tests/support/largest.h"

namespace comera::test {

// A TTM, an attention's value and output, and one more layer, some of whose entries are dead.
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
  // What entries are ordered by.
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
  // Of the gradient that descend() left, divided by the targets, against a function of the parameters.
  // Entries that are dead must have none.
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
  Harness harness_{reference_backend()};
  std::optional<double> target_now_;  // of a stage that has not to be at its target yet
};

inline RankStageOptions early(double gamma, double beta, RankPenalty penalty = RankPenalty::l1_size) {
  RankStageOptions options;
  options.objective.gamma = gamma, options.objective.beta = beta, options.objective.penalty = penalty;
  return options;
}

inline RankStageOptions late(double size_target) {
  RankStageOptions options;
  options.objective.stage = RankStage::compress;
  options.objective.size_target = size_target;
  options.objective.beta = 0;
  options.objective.order = RankOrder::magnitude;
  return options;
}

}  // namespace comera::test
