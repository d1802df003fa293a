#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/ranks.h"
#include "kernels/shared/step_values.h"

namespace comera {

// The trains whose ranks are adapted: tables as bytes, and what sizes are divided by.
struct RankTables {
  Tensor layers;  // RankLayer (layer_count)
  Tensor cores;   // RankCore (core_count)
  Tensor bonds;   // RankBond (bond_count), by layer
  std::int64_t layer_count = 0, core_count = 0, bond_count = 0;
  std::int64_t entries = 0;  // of all gates
  double initial_size = 1;   // S_init: elements of the cores with every entry live
  double initial_norm = 1;   // Σ ‖G(0)‖² over the cores

  void check(const char* operation) const;
};

// Adds the gradient of the objective's penalties to the loss's, after GradientNorm and before the update:
// they are divided by StepResults::gradient_scale, so that neither the number of targets nor clipping
// concerns them. Dead entries and removed layers get none, nor does the largest entry of
// a bond that keeps one: it cannot die, and pulled it would go through 0. A loss that is not finite, or of
// a step that StepResults::nonfinite skips, leaves the averages alone.
struct RankObjective {
  RankTables tables;
  RankObjectiveOptions options;
  Tensor parameters;           // flat
  Tensor gradients;            // flat, in and out
  std::int64_t cores_end = 0;  // before it the cores lie, and nothing else
  Tensor step_inputs;
  Tensor results;     // StepResults: loss_sum, target_count, gradient_scale and nonfinite
  Tensor importance;  // in and out (entries): the average of (∂L/∂d)² of each, L being the mean loss
  Tensor state;       // RankState, in and out

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

// After the optimizer: an entry of a gate at or below the threshold dies. The gate's entry, its slices of
// both neighbouring cores and all their moments become 0, and then stay 0 by themselves, since their
// gradients are 0. All entries of a removed layer die. With to_target only the least important entries die,
// by the order, as many as it takes to reach it. Does nothing but count when StepResults::nonfinite is set.
struct PruneRanks {
  RankTables tables;
  double threshold = 0.01;
  bool to_target = false;  // whether StepInputs::rank_target limits what dies
  RankOrder order = RankOrder::fisher;
  Tensor importance;        // (entries)
  Tensor parameters;        // flat, in and out
  Tensor moment1, moment2;  // the same of cores and gates, whatever lies behind them
  Tensor step_inputs;
  Tensor results;
  Tensor state;  // RankState, in and out

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
