#pragma once

#include <array>

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Rows of a tensor-train matrix directly from its cores, one id at a time: the simple variants of the lookup
// (CoMERA section 4.1 compares them). For id with digits i_1..i_K (first slowest):
//   Z_1 = F_1[i_1];   Z_k = (Z_{k-1} D_{k-1}) F_k[:, i_k];   row = Z_K
inline constexpr int max_ttm_cores = 6;

struct TTMChainForward {
  int cores = 0;
  std::array<Tensor, max_ttm_cores> core;  // F_k (r_{k-1}, m_k, n_k, r_k)
  std::array<Tensor, max_ttm_cores> gate;  // D_k (r_k), k < K
  Tensor ids;                              // int32 (U)
  Tensor count;                            // int32 (1)
  Tensor rows;                             // out (U, width); 0 at and beyond count

  DType compute() const { return rows.dtype(); }
  void check() const;
};

struct TTMChainBackward {
  int cores = 0;
  std::array<Tensor, max_ttm_cores> core, dcore;  // dcore in and out
  std::array<Tensor, max_ttm_cores> gate, dgate;  // dgate in and out
  Tensor ids;
  Tensor count;
  Tensor drows;  // (U, width)

  DType compute() const { return drows.dtype(); }
  void check() const;
};

}  // namespace comera
