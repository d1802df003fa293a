#pragma once

#include <string_view>

#include "tensorized/linear/linear.h"

namespace comera {

// LoRA-the-Explorer (Huh et al., 2024, section 3 and algorithm 1). W and the bias are frozen; H heads have
// adapters of rank r, of which A_h (r, inputs) and B_h (outputs, r) are trained. With s = alpha / r, and
// A'_h, B'_h what has been merged into W already, head h sees the rows of its part of x in training:
//
//   y = activation(x W + bias + s x (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ))
//
// Part h of T rows are those from h T / H to (h + 1) T / H: T must be divisible by H. Passes that do not
// train see W alone. A_h begins orthogonal times √(inputs / r), all others at 0.
//
// The merge, W += s / H Σ_h (A_hᵀ B_hᵀ - A'_hᵀ B'_hᵀ) and then A'_h = A_h, B'_h = B_h, lets every head see
// what all have learnt. It is done in the master type.
class LteLinear final : public Linear {
 public:
  LteLinear(ParameterStore& store, const Spec& spec, const LteForm& form);

  void merge_adapters(const Context& context) const override;
  std::string explain(std::int64_t tokens, const MachineModel& machine) const override;
  std::string shape_text(int output) const override;
  std::vector<double> matrix(int output) const override;

  // Whether it is one of a layer's adapters, or what has been merged of them: without them a dense layer is
  // left. For the names of a checkpoint.
  static bool is_adapter(std::string_view parameter);

 private:
  struct FirstProducts {
    std::array<Tensor, max_group_outputs>
        xa;  // x times each first factor of the adapters; none in an evaluation
  };

  Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const override;
  void run_backward(const Context& context, const Saved& saved,
                    const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                    bool accumulate_dx) const override;

  // A_h and B_h, or A'_h and B'_h, of all heads.
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
