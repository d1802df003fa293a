#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/products/weight_gradients.h"

namespace comera {

// Per row:  y = gamma (x - mean) rstd + beta,  rstd = 1 / sqrt(variance + eps), variance over the row,
// biased.
struct LayerNormForward {
  Tensor x;            // (rows, width)
  Tensor gamma, beta;  // (width)
  double eps = 1e-12;
  Tensor y;           // out (rows, width); may be x
  Tensor mean, rstd;  // out (rows)

  DType compute() const { return x.dtype(); }
  void check() const;
};

//   x̂ = (x - mean) rstd;   g = gamma dy
//   dx = rstd (g - mean(g) - x̂ mean(g x̂)), or dx += with accumulate_dx;   dgamma += Σ dy x̂;   dbeta += Σ dy
struct LayerNormBackward {
  Tensor x;           // (rows, width)
  Tensor gamma;       // (width)
  Tensor mean, rstd;  // (rows)
  Tensor dy;          // (rows, width)
  Tensor dx;          // out (rows, width); may be dy
  bool accumulate_dx = false;
  Tensor dgamma, dbeta;  // in and out (width)
  LaterSums later{};     // for dgamma and dbeta

  DType compute() const { return x.dtype(); }
  void check() const;
};

}  // namespace comera
