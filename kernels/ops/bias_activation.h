#pragma once

#include "kernels/core/tensor.h"
#include "kernels/ops/activation.h"

namespace comera {

//   u += bias;   y = activation(u)
struct BiasActivationForward {
  Tensor u;     // in and out (rows, width)
  Tensor bias;  // (width), or left out
  Activation activation = Activation::none;
  Tensor y;  // out (rows, width); left out without an activation. May be u for tanh.

  // Whether nothing changes: then a fallback decomposition can skip it.
  bool idle() const { return !bias && activation == Activation::none; }
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

  bool idle() const { return !dbias && activation == Activation::none; }
  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
