#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensorized/decomposition/shapes.h"

// TT-SVD (Oseledets, "Tensor-train decomposition", SIAM J. Sci. Comput. 33(5), 2011, algorithm 1):
// approximates a matrix by a tensor train within an error bound. docs/guide/compaction.md derives the bound.
namespace comera {

// How the bonds share the error. The squared truncation errors add up, so any shares w_k with Σ w_k = 1 keep
// the bound: bond k may cut off √w_k ε ‖A‖_F, and passes its unused share to the bonds after it.
enum class ErrorShares : std::uint8_t {
  equal,     // w_k = 1 / (K-1)
  smallest,  // shares that make the tensor train small: see docs/guide/compaction.md
};

struct TTSVDOptions {
  double error = 0;  // ε ≥ 0: guarantees ‖A - Â‖_F ≤ ε ‖A‖_F, unless a cap prevents it
  std::vector<std::int64_t> max_ranks = {};  // r_1..r_{K-1} at most; empty: no caps
  ErrorShares shares = ErrorShares::equal;
};

// How many singular values are kept.
struct Cut {
  std::int64_t rank = 1;
  double tail = 0;  // norm of those cut off
  bool capped = false;
};
// Of values that fall: the least rank of at least 1 whose tail is at most δ, or the cap; `capped` if the tail
// is more than δ then.
Cut cut(const std::vector<double>& values, double delta, std::int64_t cap);

// A tensor train of cores G_k (r_{k-1}, s_k, r_k), row-major, in double; all gates are 1.
struct TTDecomposition {
  std::vector<std::int64_t> sizes = {};         // s_1..s_K
  std::vector<std::int64_t> ranks = {};         // r_1..r_{K-1}, each at least 1
  std::vector<std::vector<double>> cores = {};  // of equal norms, unless the tensor is zero
  double error = 0;                             // √(Σ tails²) / ‖A‖_F: the part cut off
  bool capped = false;                          // a cap cut off more than the error bound allows for its bond

  std::int64_t rank(int bond) const;  // bond 0..K; 1 at both ends
};

// Decomposes a tensor of Π sizes entries, row-major, first index slowest, into K = sizes.size() ≥ 1 cores.
// From the left,
//   C (r_{k-1} s_k × rest) = U Σ Vᵀ,   δ = √(unused shares of bonds 1..k) ε ‖A‖_F
// it keeps the least r_k ≥ 1 whose tail (Σ_{i > r_k} σ_i²)^½ ≤ δ, takes G_k = U_r, and continues with U_rᵀ C
// (svd.h). At ε = 0 only rounding is cut off. Throws Error if an entry is not finite.
TTDecomposition tt_svd(std::vector<double> tensor, const std::vector<std::int64_t>& sizes,
                       const TTSVDOptions& options);

// The index order of the two kinds of layers. A linear layer's matrix (inputs × outputs) is its tensor
// unchanged, with modes n_1..n_p, m_1..m_q. An embedding's table (vocabulary × width) is padded with rows of
// zeros up to Π m_k and reordered from (i_1..i_K, j_1..j_K) to (i_1 j_1, .., i_K j_K), with sizes m_k n_k.
std::vector<std::int64_t> tensor_sizes(const TTShape& shape);
std::vector<std::int64_t> tensor_sizes(const TTMShape& shape);
std::vector<double> table_as_tensor(std::span<const double> table, std::int64_t vocabulary,
                                    const TTMShape& shape);

// Every entry of the tensor, row-major.
std::vector<double> multiplied_out(const TTDecomposition& train);

// ‖tensor - train‖_F / ‖tensor‖_F, from every entry of the tensor train; for a zero tensor ‖train‖_F. The
// tensor train is multiplied out in parts.
double relative_error(const TTDecomposition& train, std::span<const double> tensor);

}  // namespace comera
