#pragma once

#include "kernels/cpu/simd_math.h"
#include "kernels/ops/activation.h"

COMERA_CPU_BEGIN

template <Activation activation>
inline vec activated(vec u) {
  if constexpr (activation == Activation::gelu) return gelu(u);
  if constexpr (activation == Activation::tanh) return tanh(u);
  if constexpr (activation == Activation::relu) return max(splat(0), u);  // a NaN stays one
  return u;
}

// dy activation'; saved is u for gelu, and the value y where slope_by_value().
template <Activation activation>
inline vec derivative_times(vec dy, vec saved) {
  if constexpr (activation == Activation::gelu) return dy * gelu_derivative(saved);
  if constexpr (activation == Activation::tanh) return dy * (1.F - saved * saved);
  if constexpr (activation == Activation::relu) return dy * (saved > splat(0) ? splat(1) : splat(0));
  return dy;
}

template <Activation activation>
inline ValueAndSlope activated_with_slope(vec u) {
  if constexpr (activation == Activation::gelu) return gelu_with_slope(u);
  if constexpr (activation == Activation::tanh) {
    const vec y = tanh(u);
    return {y, 1.F - y * y};
  }
  if constexpr (activation == Activation::relu) return {max(splat(0), u), u > splat(0) ? splat(1) : splat(0)};
  return {u, splat(1)};
}

COMERA_CPU_END
