#pragma once

#include "optim/optimizer.h"

namespace comera {

// AdamW (Loshchilov and Hutter, 2019): kernels/ops/optimizer.h has the formula. Its states are "m" and "v",
// the moments of the gradient.
class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
      : AdamWOptimizer(store, options, allocator, store.layout()) {}

  std::vector<ParameterState> states() const override;
  Moments moments() const override { return {first_, second_}; }
  void prepare(StepInputs& inputs, std::int64_t update) const override;

 protected:
  // Of these parameters only, in the order of the flat vectors: the others are a derived class's.
  AdamWOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator,
                 const std::vector<ParameterId>& updated);
  void update_parameters(const Context& context, const Tensor& step_inputs,
                         const Tensor& step_results) const override;

 private:
  Buffer first_memory_, second_memory_;
  Tensor first_, second_;  // flat, laid out as the parameters
  DeviceTable segments_;
  std::vector<ParameterId> updated_;
  std::int64_t elements_ = 0;
};

}  // namespace comera
