#pragma once

#include "optim/optimizer.h"

namespace comera {

// AdamW (Loshchilov and Hutter, 2019): kernels/ops/optimizers/optimizer.h has the formula. Its states are "m"
// and "v", the moments of the gradient.
class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
      : AdamWOptimizer(store, options, allocator, store.layout(), layout_of(store)) {}

  std::vector<ParameterState> states() const override;
  Moments moments() const override { return {first_, second_}; }
  void prepare(StepInputs& inputs, std::int64_t update) const override;

 protected:
  // Where each parameter's moments begin in the flat vectors, by parameter id, and the length of these
  // vectors. Cores and gates come first and have the same offsets as among parameters.
  struct MomentLayout {
    std::vector<std::int64_t> offsets;
    std::int64_t elements = 0;
  };
  // Updates only these parameters, in the order of the flat vectors; a derived class updates the others.
  AdamWOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator,
                 const std::vector<ParameterId>& updated, MomentLayout layout);
  // The offsets of the parameters themselves, for all parameters.
  static MomentLayout layout_of(const ParameterStore& store);
  void update_parameters(const Context& context, const Tensor& step_inputs,
                         const Tensor& step_results) const override;

 private:
  Buffer first_memory_, second_memory_;
  Tensor first_, second_;  // flat, laid out as in layout_
  MomentLayout layout_;
  DeviceTable segments_;
  std::vector<ParameterId> updated_;
  std::int64_t elements_ = 0;
};

}  // namespace comera
