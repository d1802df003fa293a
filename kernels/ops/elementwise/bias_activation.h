#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/elementwise/activation.h"

namespace comera {

//   u += bias;   y = activation(u)
struct BiasActivationForward {
  Tensor u;     // in and out (rows, width)
  Tensor bias;  // (width), or left out
  Activation activation = Activation::none;
  Tensor y;  // out (rows, width); left out without an activation. May be u itself where the slope is
             // computed from the value (traits_of).

  // Whether nothing changes: then a fallback decomposition can skip it.
  bool idle() const { return !bias && activation == Activation::none; }
  DType compute() const { return u.dtype(); }
  void check() const;
};

//   du = dy activation'(u);   dbias += column sums of du
struct BiasActivationBackward {
  Tensor u;  // (rows, width): the argument, where the slope is computed from it (traits_of)
  Tensor y;  // (rows, width): the value, where the slope is computed from that
  Activation activation = Activation::none;
  Tensor dy;     // in and out (rows, width): overwritten by du
  Tensor dbias;  // in and out (width), or left out

  bool idle() const { return !dbias && activation == Activation::none; }
  DType compute() const { return dy.dtype(); }
  void check() const;
};

}  // namespace comera
