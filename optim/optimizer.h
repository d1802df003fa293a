#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/ops/muon.h"
#include "kernels/shared/step_values.h"

namespace comera {

// muon: Muon for the matrices of linear layers, dense or cores of trains, AdamW for all the rest.
enum class OptimizerKind : std::uint8_t { adamw, muon };
const char* name_of(OptimizerKind kind);  // "adamw", "muon"

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;  // of Muon
  double weight_decay = 0.01;
  bool decay_cores = false;  // weight decay on tensor-train cores too; never on biases, norms and gates
};

// Which learning rate a parameter has (StepInputs::learning_rate): its role's, but cores of the token
// embedding their own. That of cores is also of all matrices that Muon updates.
enum class RateGroup : std::uint8_t { core, gate, dense, embedding };
using StepRates = std::array<double, max_parameter_groups>;  // by RateGroup

// One optimizer over all parameters. Its state is laid out as the parameters: first moments, or Muon's
// momentum, and second moments, which stay 0 for Muon's matrices.
class Optimizer {
 public:
  static RateGroup group_of(const ParameterInfo& parameter, const OptimizerOptions& options);

  // The store must be allocated with gradients, and outlive the optimizer.
  Optimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator);

  // The two halves of a step's end, between which a penalty may add to gradients: the norm of the loss's,
  // with what clipping makes of it; then the update and gradients back to zero. Does not change parameters if
  // a gradient was not finite.
  void measure(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  void update(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const;
  void apply(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
    measure(context, step_inputs, step_results);
    update(context, step_inputs, step_results);
  }

  // Fills in what depends on the number of updates, counted from 0.
  void prepare(StepInputs& inputs, std::int64_t update) const;

  // Its state by name, each as long as the parameters: for checkpoints.
  std::vector<std::pair<std::string, Tensor>> state() const { return {{"m", moment1_}, {"v", moment2_}}; }
  // The tensor whose gradient was the first that was not finite, in the order of a backward pass; of the last
  // measure(), if StepResults::first_nonfinite counts to one. Waits for the device.
  const std::string& first_nonfinite(const StepResults& results) const;

 private:
  ParameterStore& store_;
  OptimizerOptions options_;
  MuonSizes matrix_sizes_;
  Buffer moment1_memory_, moment2_memory_, table_memory_, norm_memory_;
  Tensor moment1_, moment2_, norms_;
  // As bytes: all tensors; those of AdamW; Muon's matrices.
  Tensor segments_, adamw_segments_, matrices_;
  std::int64_t adamw_count_ = 0, adamw_elements_ = 0;
};

}  // namespace comera
