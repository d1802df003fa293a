#pragma once

#include "kernels/cpu/simd_math.h"
#include "kernels/ops/activation.h"

COMERA_CPU_BEGIN

template <Activation activation>
inline vec activated(vec u) {
  if constexpr (activation == Activation::gelu) return gelu(u);
  if constexpr (activation == Activation::tanh) return tanh(u);
  return u;
}

// dy activation'; saved is u for gelu and the value y for tanh.
template <Activation activation>
inline vec derivative_times(vec dy, vec saved) {
  if constexpr (activation == Activation::gelu) return dy * gelu_derivative(saved);
  if constexpr (activation == Activation::tanh) return dy * (1.F - saved * saved);
  return dy;
}

COMERA_CPU_END
