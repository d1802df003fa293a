#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/ranks.h"
#include "kernels/shared/step_values.h"

namespace comera {

// The tensor trains whose ranks are adapted: tables as bytes, and normalisation constants.
struct RankTables {
  Tensor layers;  // RankLayer (layer_count)
  Tensor cores;   // RankCore (core_count)
  Tensor bonds;   // RankBond (bond_count), by layer
  std::int64_t layer_count = 0, core_count = 0, bond_count = 0;
  std::int64_t entries = 0;  // in all gates
  double initial_size = 1;   // S_init: elements of the cores with every entry live
  double initial_norm = 1;   // Σ ‖G(0)‖² over the cores

  void check(const char* operation) const;
};

// Adds the gradient of the objective's penalties to the loss's gradient, after GradientNorm and before the
// update. Penalties are divided by StepResults::gradient_scale, so that they do not depend on the number of
// targets or on clipping. Pruned entries and removed layers get no penalty; neither does the largest entry of
// a bond that keeps one, since it cannot be pruned and the penalty would pull it through 0. A loss that is
// not finite, or a step that StepResults::nonfinite skips, leaves the averages unchanged.
struct RankObjective {
  RankTables tables;
  RankObjectiveOptions options;
  Tensor parameters;           // flat
  Tensor gradients;            // flat, in and out
  std::int64_t cores_end = 0;  // the cores lie before it, and nothing else
  Tensor step_inputs;
  Tensor results;     // StepResults: loss_sum, target_count, gradient_scale and nonfinite
  Tensor importance;  // in and out (entries): the average (∂L/∂d)² of each entry; L: mean loss
  Tensor state;       // RankState, in and out

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

// After the optimizer: prunes gate entries at or below the threshold. The entry, its slices of both
// neighbouring cores and all their moments become 0, and stay 0 because their gradients are 0. All entries of
// a removed layer are pruned. With to_target, only the least important entries by the order are pruned, as
// many as the target needs. If StepResults::nonfinite is set, only counts.
struct PruneRanks {
  RankTables tables;
  double threshold = 0.01;
  bool to_target = false;  // whether StepInputs::rank_target limits pruning
  RankOrder order = RankOrder::fisher;
  Tensor importance;        // (entries)
  Tensor parameters;        // flat, in and out
  Tensor moment1, moment2;  // moments of cores and gates; later entries ignored
  Tensor step_inputs;
  Tensor results;
  Tensor state;  // RankState, in and out

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
