#pragma once

#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "kernels/core/tensors/parameter_state.h"
#include "kernels/ops/context.h"
#include "kernels/ops/tensor_trains/ranks.h"
#include "tensorized/ranked_layer.h"

namespace comera {

// What sizes and norms are measured by, from the start of training to its end.
struct RankUnits {
  double size = 0;  // S_init: elements of all cores with every gate live
  double norm = 0;  // Σ ‖G(0)‖² over the cores
};

// Of the parameters as they are. Waits for the device.
RankUnits measure_rank_units(const ParameterStore& store, const std::vector<RankedLayer>& layers);

// What is descended in a stage, and when an entry of a gate is dead.
struct RankStageOptions {
  RankObjectiveOptions objective;
  double threshold = 0.01;  // τ

  friend bool operator==(const RankStageOptions&, const RankStageOptions&) = default;
};

// How much the loss depends on each entry of the gates: the average of (∂L/∂d)², which RankAdaptation keeps
// and orders entries by. It outlives the stages, and is saved and compacted as an optimizer's moments are.
class GateImportance {
 public:
  // Zeros. The store must be allocated, and outlive this.
  GateImportance(const ParameterStore& store, const std::vector<RankedLayer>& layers);

  Tensor values() const { return values_; }    // of all gates, by layer
  std::vector<ParameterState> states() const;  // "importance" of each gate

 private:
  const ParameterStore& store_;
  std::vector<ParameterId> gates_;
  Buffer memory_;
  Tensor values_;
};

// The two operations that stand around an optimizer's update (kernels/ops/tensor_trains/ranks.h), with their
// tables and state on the device.
class RankAdaptation {
 public:
  // The store must be allocated with gradients, and outlive this, as must the importance, of the same layers.
  RankAdaptation(const ParameterStore& store, const std::vector<RankedLayer>& layers, const RankUnits& units,
                 const RankStageOptions& options, const GateImportance& importance);

  // Between Optimizer::measure() and update(): the gradient of the penalties.
  void descend(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  // After it. Moments are laid out as the parameters.
  void prune(const Context& context, const Tensor& moment1, const Tensor& moment2, const Tensor& step_inputs,
             const Tensor& step_results) const;

  const RankStageOptions& options() const { return options_; }
  // Waits for the device.
  RankState state() const;
  void set_state(const RankState& state) const;

 private:
  const ParameterStore& store_;
  RankStageOptions options_;
  Buffer table_memory_, state_memory_;
  RankTables tables_;
  Tensor state_, importance_;
  std::int64_t cores_end_ = 0;
};

}  // namespace comera
