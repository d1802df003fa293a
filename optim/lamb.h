#pragma once

#include "optim/adamw.h"

namespace comera {

// LAMB (You et al., 2020): AdamW's direction, decay included, is scaled for each matrix, core and table by
// the parameter's norm over the direction's norm. Parameters that never decay (biases, norms, gates) are
// updated as with AdamW. Its states are AdamW's.
class LambOptimizer final : public AdamWOptimizer {
 public:
  LambOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator);

 protected:
  void update_parameters(const Context& context, const Tensor& step_inputs,
                         const Tensor& step_results) const override;

 private:
  DeviceTable segments_, ratios_;  // those with their own ratio first; the ratios of the others stay 1
  std::int64_t scaled_ = 0, scaled_elements_ = 0;
  std::int64_t count_ = 0, elements_ = 0;
};

}  // namespace comera
