#pragma once

#include <array>

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/ops/tensor_trains/ttm_chain.h"
#include "tensorized/decomposition/shapes.h"

namespace comera {

// The parameters of a tensor-train matrix: cores F_k (r_{k-1}, m_k, n_k, r_k), and gates D_k on the last axis
// of each core but the last.
struct TTMCores {
  TTMShape shape;
  std::vector<ParameterId> cores;
  std::vector<ParameterId> gates;

  // Rows are initialised with standard deviation `deviation`.
  static TTMCores add(ParameterStore& store, const std::string& name, const TTMShape& shape,
                      double deviation);

  // Sizes of the factors: left (L, nl, rank), right (rank, R, nr).
  std::int64_t left_rows() const { return shape.rows() / shape.right_rows(); }
  std::int64_t right_rows() const { return shape.right_rows(); }
  std::int64_t left_columns() const;
  std::int64_t right_columns() const { return shape.columns() / left_columns(); }
  std::int64_t middle_rank() const { return shape.rank(shape.left_cores()); }
};

// The contracted factors: row l R + r, column a nr + b of the table is Σ_k left[l, a, k] right[k, r, b].
struct MergedTTM {
  Tensor left;   // (L, nl, rank), with the middle gate
  Tensor right;  // (rank, R, nr)
  // Intermediate results for the gradients: S_k = F_k D_k, and (M, N, r_k) after core k of the left factor,
  // (r_{k-1}, M', N') from core k of the right factor.
  std::array<Tensor, max_ttm_cores> scaled, partial;
};
// Kept in the arena.
MergedTTM merge_ttm(const Context& context, const ParameterStore& store, const TTMCores& train);
// Adds the gradients of cores and gates, given those of the left and right factors, which are overwritten.
void merge_ttm_backward(const Context& context, const ParameterStore& store, const TTMCores& train,
                        const MergedTTM& merged, const Tensor& dleft, const Tensor& dright);

}  // namespace comera
