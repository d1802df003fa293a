#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "kernels/core/tensors/arena.h"
#include "kernels/core/tensors/tensor.h"

namespace comera {

struct Context;

// A tensor train in the form that operations take: cores G_k (r_{k-1}, s_k, r_k), the first `inputs` of which
// have input modes, and gates D_k (r_k) on the last axis of each core but the last. S_k = G_k D_k.
inline constexpr int max_tt_cores = 16;
struct TTCoreChain {
  int order = 0, inputs = 0;
  std::array<Tensor, max_tt_cores> core;
  std::array<Tensor, max_tt_cores> gate;

  std::int64_t rank(int k) const { return core[k].dim(2); }  // after core k
  std::int64_t mode(int k) const { return core[k].dim(1); }
  std::int64_t input_size() const;
  std::int64_t output_size() const;
};

// Why these products do not use narrow types.
inline constexpr const char* cores_stay_wide = "cores and their merges stay fp32";

// The left and right factors of tensor trains as matrices, so that W = A B (CoMERA, section 4.2):
//   L_k = L_{k-1} S_k;   A = L_p;       R_k = S_k R_{k+1};   B = R_{p+1}
// The padding of A and B is written too, so that callers need not clear it.
struct TTFactorsForward {
  struct Factors {
    TTCoreChain train;
    Tensor a;                    // out, flat memory: inputs x a_columns, rows a_apart elements apart
    std::int64_t a_apart = 0;    // at least a_columns
    std::int64_t a_columns = 0;  // at least r_p; further columns are zero; 0: r_p
    Tensor b;                    // out (r_p or more, outputs): rows after r_p are zero
    Tensor last_row{};           // (outputs), or left out: the content of b's last row, which is after r_p
    std::string_view place{};    // in a product log (product_log.h); empty: the enclosing scope's

    std::int64_t columns() const { return a_columns > 0 ? a_columns : train.rank(train.inputs - 1); }
  };
  std::vector<Factors> factors;  // at least one

  DType compute() const { return factors.front().b.dtype(); }
  void check() const;
};

// Adds the gradients of cores and gates, given those of A and B.
struct TTFactorsBackward {
  struct Factors {
    TTCoreChain train;
    Tensor da;  // shaped as a
    std::int64_t a_apart = 0;
    Tensor db;                               // (r_p or more, outputs); may be overwritten
    std::array<Tensor, max_tt_cores> dcore;  // in and out, shaped as the cores
    std::array<Tensor, max_tt_cores> dgate;  // in and out, shaped as the gates
    Tensor dlast_row{};  // in and out (outputs), or left out: adds the last row of db, after r_p
    std::string_view place{};
  };
  std::vector<Factors> factors;

  DType compute() const { return factors.front().db.dtype(); }
  void check() const;
};

// Shared by fallback decompositions: S_k in scratch, and the conversion of dS_k into gradients of G_k and
// D_k.
Tensor gated_core(const Context& context, ArenaScope& scope, const Tensor& core, const Tensor& gate);
void add_gated_core_gradient(const Context& context, const Tensor& core, const Tensor& gate,
                             const Tensor& dgated, const Tensor& dcore, const Tensor& dgate);

}  // namespace comera
