#pragma once

#include "kernels/core/tensor.h"
#include "kernels/ops/activation.h"

namespace comera {

//   u += bias;   y = activation(u)
struct BiasActivationForward {
  Tensor u;     // in and out (rows, width)
  Tensor bias;  // (width), or left out
  Activation activation = Activation::none;
  Tensor y;  // out (rows, width); left out without an activation. May be u itself for tanh.

  DType compute() const { return u.dtype(); }
  void check() const;
};

//   du = dy activation'(u);   dbias += column sums of du
// tanh uses its value y instead of u.
struct BiasActivationBackward {
  Tensor u;  // (rows, width); gelu only
  Tensor y;  // (rows, width); tanh only
  Activation activation = Activation::none;
  Tensor dy;     // in and out (rows, width): overwritten by du
  Tensor dbias;  // in and out (width), or left out

  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
