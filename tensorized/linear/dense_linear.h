#pragma once

#include "tensorized/linear/linear.h"

namespace comera {

// W_i is (inputs, outputs), N(0, 1 / (inputs + outputs)).
class DenseLinear final : public Linear {
 public:
  DenseLinear(ParameterStore& store, const Spec& spec);

  std::string explain(std::int64_t tokens, const MachineModel& machine) const override;
  std::string shape_text(int output) const override;
  std::vector<double> matrix(int output) const override;

 private:
  Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const override;
  void run_backward(const Context& context, const Saved& saved,
                    const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx, bool accumulate_dx,
                    MergedGradients* merged) const override;

  bool in_float8() const { return float8_ && fits_float8(); }
  void backward_products(const Context& context, const Saved& saved, int i, const Tensor& dy,
                         const Tensor& dx, bool accumulate) const;
  void forward_in_float8(const Context& context, const Saved& saved) const;
  void backward_in_float8(const Context& context, const Saved& saved, int i, const Tensor& dy,
                          const Tensor& dx, bool accumulate) const;

  std::vector<ParameterId> weights_;
};

}  // namespace comera
