#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/products/weight_gradients.h"
#include "kernels/shared/step_values.h"

namespace comera {

// The end of an attention or feed-forward block:
//
//   sum = residual + dropout(x + bias);   normed = layer_norm(sum)
//
// The dropout index is row * width + column. Without gamma there is no norm (the pre-norm encoder).
struct BiasDropoutResidualNormForward {
  Tensor x;         // (rows, width)
  Tensor bias;      // (width)
  Tensor residual;  // (rows, width)
  DropoutSpec dropout;
  Tensor step_inputs;  // StepInputs; needed with dropout
  Tensor gamma, beta;  // (width), or left out
  double eps = 1e-12;
  Tensor sum;         // out (rows, width); may be x
  Tensor normed;      // out (rows, width), only with gamma
  Tensor mean, rstd;  // out (rows), only with gamma

  DType compute() const { return x.dtype(); }
  void check() const;
};

//   dsum = layer norm's gradient of dy (or dy itself without gamma);   dresidual = dsum
//   dx = dsum dropout mask and scale;   dbias += column sums of dx
struct BiasDropoutResidualNormBackward {
  Tensor dy;          // (rows, width): gradient of normed, or of sum without gamma
  Tensor sum;         // (rows, width), only with gamma
  Tensor gamma;       // (width), or left out
  Tensor mean, rstd;  // (rows), only with gamma
  DropoutSpec dropout;
  Tensor step_inputs;
  Tensor dresidual;      // out (rows, width); may be dy
  Tensor dx;             // out (rows, width)
  Tensor dbias;          // in and out (width)
  Tensor dgamma, dbeta;  // in and out (width), only with gamma
  LaterSums later{};     // for dbias, and for dgamma and dbeta

  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
