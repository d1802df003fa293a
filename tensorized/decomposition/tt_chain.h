#pragma once

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/ops/tensor_trains/tt_factors.h"
#include "tensorized/decomposition/shapes.h"

namespace comera {

// The parameters of one tensor train: cores G_k (r_{k-1}, s_k, r_k), and gates D_k on the last axis of each
// core but the last.
struct TTCores {
  TTShape shape;
  std::vector<ParameterId> cores;
  std::vector<ParameterId> gates;

  // Entries start as N(0, s_k²), s_k = σ^(1/K) / sqrt(r_k), and gates as 1, so that the layer's matrix has
  // standard deviation σ; here σ² = 1 / (inputs + outputs). As a matrix (fan-in x fan-out), a core is r_{k-1}
  // s_k x r_k on the input side and r_{k-1} x s_k r_k on the output side.
  static TTCores add(ParameterStore& store, const std::string& name, const TTShape& shape);
};

// Arguments for TTFactorsForward and TTFactorsBackward: the left and right factors of the tensor train. Rows
// of A have a_columns columns and lie a_apart elements apart.
TTFactorsForward::Factors factors_of(const ParameterStore& store, const TTCores& train, const Tensor& a,
                                     std::int64_t a_apart, std::int64_t a_columns, const Tensor& b);
TTFactorsBackward::Factors factor_gradients_of(const ParameterStore& store, const TTCores& train,
                                               const Tensor& da, std::int64_t a_apart, const Tensor& db);
// For one tensor train.
void merge_factors(const Context& context, const ParameterStore& store, const TTCores& train, const Tensor& a,
                   std::int64_t a_apart, const Tensor& b);
void merge_factors_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                            const Tensor& da, std::int64_t a_apart, const Tensor& db);

// y = x W mode by mode, without contracting cores, and its gradients. Tokens x inputs -> tokens x outputs.
void modewise_forward(const Context& context, const ParameterStore& store, const TTCores& train,
                      const Tensor& x, const Tensor& y);
// dx (if it has data) is written, or added to; gradients of cores and gates are added if `gradients`.
void modewise_backward(const Context& context, const ParameterStore& store, const TTCores& train,
                       const Tensor& x, const Tensor& dy, const Tensor& dx, bool accumulate_dx,
                       bool gradients);

}  // namespace comera
