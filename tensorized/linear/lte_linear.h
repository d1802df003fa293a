#pragma once

#include <string_view>

#include "tensorized/linear/linear.h"

namespace comera {

// LoRA-the-Explorer (Huh et al., 2024, section 3 and algorithm 1). W and the bias are frozen. Each of H heads
// trains an adapter of rank r: A_h (r, inputs) and B_h (outputs, r). A'_h and B'_h are the values already
// merged into W. With s = alpha / r, head h computes for its part of x in training:
//
//   y = activation(x W + bias + s x (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ))
//
// Part h of T rows are the rows from h T / H to (h + 1) T / H: T must be divisible by H. Passes that do not
// train use W alone. A_h starts orthogonal times √(inputs / r), all others start at 0.
//
// The merge, W += s / H Σ_h (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ) and then A'_h = A_h, B'_h = B_h, shares the updates of
// all heads. It is done in the master type.
class LteLinear final : public Linear {
 public:
  LteLinear(ParameterStore& store, const Spec& spec, const LteForm& form);

  void consolidate(const Context& context) const override;
  std::string explain(std::int64_t tokens, const MachineModel& machine) const override;
  std::string shape_text(int output) const override;
  std::vector<double> matrix(int output) const override;

  // Whether the parameter is part of an adapter, trained or merged: without these, a dense layer is left. For
  // the names in a checkpoint.
  static bool is_adapter(std::string_view parameter);

 private:
  struct FirstProducts {
    std::array<Tensor, max_group_outputs>
        xa;  // x times each first factor of the adapters; none in an evaluation
  };

  Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const override;
  void run_backward(const Context& context, const Saved& saved,
                    const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx, bool accumulate_dx,
                    MergedGradients* merged) const override;

  // A_h and B_h, or A'_h and B'_h, for all heads.
  struct Factors {
    ParameterId a = -1;  // (H, r, inputs)
    ParameterId b = -1;  // (H, outputs, r)
  };
  struct Output {
    ParameterId weight = -1;  // (inputs, outputs)
    Factors trained, merged;
    // In the order of their columns in xa.
    std::array<const Factors*, 2> pairs() const { return {&trained, &merged}; }
  };
  void scale(const Context& context, const Tensor& rows, const Tensor& to) const;
  void add_adapters(const Context& context, const Output& output, const Tensor& x, const Tensor& xa,
                    const Tensor& u) const;
  void adapters_backward(const Context& context, const Output& output, const Saved& saved, const Tensor& xa,
                         const Tensor& du, const Tensor& dx) const;
  void add_to_weight(const Context& context, const Output& output, const Factors& factors,
                     double scale) const;

  LteForm form_;
  double scale_;  // s
  std::vector<Output> parts_;
};

}  // namespace comera
