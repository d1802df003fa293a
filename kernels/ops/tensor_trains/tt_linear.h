#pragma once

#include <array>

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"
#include "kernels/ops/products/weight_gradients.h"

namespace comera {

// A group of tensor-train layers with one input, evaluated through their left and right factors A_i (N x r_i)
// and B_i (r_i x M_i), CoMERA section 4.2. The A_i lie side by side in a (N x R), R = sum of the r_i.
//
//   xa = x a;   u_i = xa[:, column_i : column_i + r_i] B_i + D_i(x) + bias_i;   y_i = activation_i(u_i)
//
// D_i is a diagonal beside the train (kernels/ops/tensor_trains/diagonal.h), or nothing.
inline constexpr int max_group_outputs = 3;

struct TTLinearForward {
  struct Output {
    std::int64_t column = 0;  // where A_i begins in a
    Tensor b;                 // (r_i, M_i)
    Tensor bias;              // (M_i), or left out
    Tensor diagonal = {};     // (max(N, M_i)), or left out
    Tensor rounded_bias{};    // (M_i), the same in the compute type, or left out (BiasedProduct)
    Activation activation = Activation::none;
    Tensor u;  // out (T, M_i)
    Tensor y;  // out (T, M_i); left out without an activation
  };

  Tensor x;   // (T, N)
  Tensor a;   // (N, R)
  Tensor xa;  // out (T, R): backward needs it
  int outputs = 0;
  std::array<Output, max_group_outputs> output;

  bool has_diagonal() const;
  DType compute() const { return x.dtype(); }
  void check() const { check(compute()); }
  void check(DType factors) const;  // with a and b in that type
};

//   du_i = dy_i activation_i'(u_i);   dB_i += xa_iᵀ du_i;   dbias_i += column sums of du_i
//   dxa_i = du_i B_iᵀ;   da += xᵀ dxa;   dx = dxa aᵀ + Σ D_iᵀ(du_i), or dx += with accumulate_dx
//
// Columns of a that no output uses are for other consumers of xa: dxa then holds their gradient.
//
// A backend may leave dB_i, dbias_i and da, which are not needed at once, to `later`, also in a dry run: they
// are complete when `later` has been run, and until then x, xa, dxa and dy must not change.
struct TTLinearBackward {
  struct Output {
    std::int64_t column = 0;
    Tensor b;               // (r_i, M_i)
    Tensor db;              // in and out (r_i, M_i)
    Tensor dbias;           // in and out (M_i), or left out
    Tensor diagonal = {};   // as in forward
    Tensor ddiagonal = {};  // in and out, as diagonal
    Activation activation = Activation::none;
    Tensor u;   // (T, M_i); left out without an activation
    Tensor y;   // (T, M_i); left out without an activation
    Tensor dy;  // (T, M_i); overwritten by du_i
  };

  Tensor x;   // (T, N)
  Tensor a;   // (N, R)
  Tensor xa;  // (T, R)
  Tensor da;  // in and out (N, R)
  Tensor dx;  // out (T, N)
  bool accumulate_dx = false;
  int outputs = 0;
  std::array<Output, max_group_outputs> output;
  Tensor dxa;  // (T, R), or left out; outputs' columns are not read and may be overwritten
  WeightGradients* later = nullptr;  // requires dxa

  bool has_diagonal() const;
  DType compute() const { return x.dtype(); }
  void check() const { check(compute()); }
  void check(DType factors) const;  // with a and b in that type
};

}  // namespace comera
