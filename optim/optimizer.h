#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/core/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool decay_cores = false;  // weight decay on tensor-train cores too; never on biases, norms and gates
};

// AdamW with one learning rate for each role (StepInputs::learning_rate is indexed by ParameterRole). Its
// state is laid out as the parameters.
class AdamWOptimizer {
 public:
  // The store must be allocated with gradients, and outlive the optimizer.
  AdamWOptimizer(ParameterStore& store, const AdamWOptions& options, Allocator& allocator);

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
  AdamWOptions options_;
  Buffer moment1_memory_, moment2_memory_, segment_memory_, norm_memory_;
  Tensor moment1_, moment2_, segments_, norms_;
};

}  // namespace comera
