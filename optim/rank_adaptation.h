#pragma once

#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "kernels/core/tensors/parameter_state.h"
#include "kernels/ops/context.h"
#include "kernels/ops/tensor_trains/ranks.h"
#include "tensorized/ranked_layer.h"

namespace comera {

// Units of sizes and norms, constant from the start of training to its end.
struct RankUnits {
  double size = 0;  // S_init: elements of all cores with every gate live
  double norm = 0;  // Σ ‖G(0)‖² over the cores
};

// Measures the current parameters. Waits for the device.
RankUnits measure_rank_units(const ParameterStore& store, const std::vector<RankedLayer>& layers);

// What a stage penalises, and when a gate entry is pruned.
struct RankStageOptions {
  RankObjectiveOptions objective;
  double threshold = 0.01;  // τ

  friend bool operator==(const RankStageOptions&, const RankStageOptions&) = default;
};

// How much the loss depends on each gate entry: the average of (∂L/∂d)², which RankAdaptation maintains and
// by which it orders the entries. It outlives the stages, and is saved and compacted like an optimizer's
// moments.
class GateImportance {
 public:
  // Zeros. The store must be allocated, and outlive this object.
  GateImportance(const ParameterStore& store, const std::vector<RankedLayer>& layers);

  Tensor values() const { return values_; }    // of all gates, by layer
  std::vector<ParameterState> states() const;  // "importance" of each gate

 private:
  const ParameterStore& store_;
  std::vector<ParameterId> gates_;
  Buffer memory_;
  Tensor values_;
};

// The two operations before and after an optimizer's update (kernels/ops/tensor_trains/ranks.h), with their
// tables and state on the device.
class RankAdaptation {
 public:
  // The store must be allocated with gradients. The store and the importance, which must be of the same
  // layers, must outlive this object.
  RankAdaptation(const ParameterStore& store, const std::vector<RankedLayer>& layers, const RankUnits& units,
                 const RankStageOptions& options, const GateImportance& importance);

  // Called between Optimizer::measure() and update(): adds the gradient of the penalties.
  void descend(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  // Called after update(). Moments are laid out as the parameters.
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
