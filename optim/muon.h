#pragma once

#include "kernels/ops/optimizers/muon.h"
#include "optim/adamw.h"

namespace comera {

// Muon (Jordan et al., 2024) for the matrices of linear layers, whether dense or cores of tensor trains:
// kernels/ops/optimizers/muon.h has the formula. AdamW updates all other parameters. A matrix's only state is
// "m", its momentum.
class MuonOptimizer final : public AdamWOptimizer {
 public:
  MuonOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator);

  std::vector<ParameterState> states() const override;

 protected:
  void update_parameters(const Context& context, const Tensor& step_inputs,
                         const Tensor& step_results) const override;

 private:
  std::vector<ParameterId> ids_;
  MuonSizes sizes_;
  DeviceTable matrices_;
};

}  // namespace comera
