#pragma once

#include "optim/adamw.h"

namespace comera {

// GaLore (Zhao et al., 2024): for a dense linear layer's matrix, Adam's moments are those of the gradient
// projected onto a subspace, spanned by the gradient's leading singular vectors and recomputed every
// update_proj_gap updates. Moments are kept when the subspace changes. All other parameters, including cores
// and gates, are updated by AdamW.
//
// A matrix's states are "m" and "v" of the projected gradient, and the subspace's orthonormal basis as rows:
// "basis_in" for the inputs, "basis_out" for the outputs, or both.
class GaloreOptimizer final : public AdamWOptimizer {
 public:
  GaloreOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator);

  std::vector<ParameterState> states() const override;
  bool refreshes(std::int64_t update) const override;
  Tensor refresh(int process, int processes) override;

 protected:
  void update_parameters(const Context& context, const Tensor& step_inputs,
                         const Tensor& step_results) const override;

 private:
  // A weight W (inputs, outputs) with gradient G: P = B_in G, G B_outᵀ or B_in G B_outᵀ.
  struct Matrix {
    ParameterId id = -1;
    std::int64_t inputs = 0, outputs = 0, rank = 0;
    bool in = false, out = false;              // which sides are projected
    std::int64_t basis_in = 0, basis_out = 0;  // offset in bases_
    std::int64_t moments = 0;                  // offset in moments()

    Shape projected() const { return {in ? rank : inputs, out ? rank : outputs}; }
  };
  // A side of a matrix whose subspace is recomputed.
  struct Side {
    Tensor basis;                              // (rank, length)
    std::vector<double> gradient, directions;  // rows of the side; the subspace, initially the previous one

    std::int64_t length() const { return basis.shape()[1]; }
    void find();
  };
  struct Plan {
    std::vector<Matrix> matrices;
    MomentLayout moments;
    std::int64_t bases = 0;  // elements
  };
  static Plan plan(const ParameterStore& store, const GaloreOptions& options);
  GaloreOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator, Plan plan);

  Tensor basis_in(const Matrix& matrix) const {
    return bases_.slice(matrix.basis_in, {matrix.rank, matrix.inputs});
  }
  Tensor basis_out(const Matrix& matrix) const {
    return bases_.slice(matrix.basis_out, {matrix.rank, matrix.outputs});
  }
  std::vector<Tensor> bases_of(const Matrix& matrix) const;
  void renew(std::vector<Side>& sides) const;
  void project(const Context& context, const Matrix& matrix, const Tensor& to) const;
  void project_back(const Context& context, const Matrix& matrix, const Tensor& from) const;

  std::vector<Matrix> matrices_;
  Buffer basis_memory_;
  Tensor bases_;            // flat
  DeviceTable directions_;  // a segment per matrix, at the beginning of its projection
  DeviceTable moves_;       // a segment per matrix, at its offset among parameters
  DeviceTable scales_;      // GaLore's scale of each matrix
  std::int64_t elements_ = 0;
};

}  // namespace comera
