#pragma once

#include "tensorized/linear/linear.h"

namespace comera {

// W_i = U_i V_i with U_i (inputs, rank) and V_i (rank, outputs), both trained: y = (x U_i) V_i + bias_i. The
// entries of U_i V_i start with the standard deviation of a dense layer's. Throws Error unless 1 <= rank <=
// inputs and outputs.
class LowRankLinear final : public Linear {
 public:
  LowRankLinear(ParameterStore& store, const Spec& spec, std::int64_t rank);

  std::string explain(std::int64_t tokens, const MachineModel& machine) const override;
  std::string shape_text(int output) const override;
  std::vector<double> matrix(int output) const override;

 private:
  Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const override;
  void run_backward(const Context& context, const Saved& saved,
                    const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx, bool accumulate_dx,
                    MergedGradients* merged) const override;

  struct FirstProducts {
    std::array<Tensor, max_group_outputs> xa;  // x times each first factor
  };

  std::int64_t rank_;
  std::vector<ParameterId> left_, right_;  // U_i, V_i
};

}  // namespace comera
