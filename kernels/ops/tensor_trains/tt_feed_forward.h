#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"
#include "kernels/ops/products/weight_gradients.h"

namespace comera {

// Two tensor-train layers with an activation between them, through their left and right factors
// (kernels/ops/tensor_trains/tt_linear.h):
//
//   xa = x a_up;   h = activation(xa b_up + D_up(x) + bias);   ha = h a_down;   y = ha b_down + D_down(h)
//
// D_up and D_down are diagonals beside the trains (kernels/ops/tensor_trains/diagonal.h), or nothing.
// h (T, M) is the widest tensor of an encoder and need not exist as a whole: backward recomputes it.
struct TTFeedForwardForward {
  Tensor x;                   // (T, N)
  Tensor a_up;                // (N, r)
  Tensor b_up;                // (r, M)
  Tensor bias;                // (M)
  Tensor a_down;              // (M, s)
  Tensor b_down;              // (s, K)
  Tensor diagonal_up = {};    // (max(N, M)), or left out
  Tensor diagonal_down = {};  // (max(M, K)), or left out
  Activation activation = Activation::gelu;
  Tensor xa;  // out (T, r)
  Tensor ha;  // out (T, s)
  Tensor y;   // out (T, K)

  bool has_diagonal() const { return diagonal_up || diagonal_down; }
  DType compute() const { return x.dtype(); }
  void check() const;
};

//   db_down += haᵀ dy;   dha = dy b_downᵀ;   da_down += hᵀ dha;   du = (dha a_downᵀ) activation'(u)
//   dbias += column sums of du;   db_up += xaᵀ du;   dxa = du b_upᵀ;   da_up += xᵀ dxa
//   dx = dxa a_upᵀ, or dx += with accumulate_dx
//
// With diagonals, dh = dha a_downᵀ + D_downᵀ(dy), dx has also D_upᵀ(du), and their gradients are added.
//
// A backend may leave db_down and da_up to `later`, as in TTLinearBackward.
struct TTFeedForwardBackward {
  Tensor x, a_up, b_up, bias, a_down, b_down;
  Tensor diagonal_up = {}, diagonal_down = {};
  Activation activation = Activation::gelu;
  Tensor xa, ha;
  Tensor dy;  // (T, K)
  // In and out, shaped as the corresponding tensors.
  Tensor da_up, db_up, dbias, da_down, db_down;
  Tensor ddiagonal_up = {}, ddiagonal_down = {};
  Tensor dx;  // out (T, N)
  bool accumulate_dx = false;
  WeightGradients* later = nullptr;  // requires dxa
  Tensor dxa;                        // (T, r); scratch, or left out

  bool has_diagonal() const { return diagonal_up || diagonal_down; }
  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
