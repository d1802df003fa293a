#pragma once

#include "kernels/cpu/simd_math.h"
#include "kernels/ops/activation.h"

COMERA_CPU_BEGIN

template <Activation activation>
inline vec activated(vec u) {
  if constexpr (activation == Activation::gelu) return gelu(u);
  if constexpr (activation == Activation::tanh) return tanh(u);
  if constexpr (activation == Activation::relu) return max(splat(0), u);  // a NaN stays NaN
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

// For several vectors (see GeluPlaces): u becomes the activation of u.
template <Activation activation, int Vectors>
inline void activate(vec (&u)[Vectors]) {
  if constexpr (activation == Activation::gelu) return gelu(u);
  for (vec& v : u) v = activated<activation>(v);
}

// The same, and also the activation' of the original u.
template <Activation activation, int Vectors>
inline void activate_with_slope(vec (&u)[Vectors], vec (&slope)[Vectors]) {
  if constexpr (activation == Activation::gelu) return gelu_with_slope(u, slope);
  for (int k = 0; k < Vectors; ++k) {
    if constexpr (activation == Activation::relu) slope[k] = u[k] > splat(0) ? splat(1) : splat(0);
    u[k] = activated<activation>(u[k]);
    if constexpr (activation == Activation::tanh) slope[k] = 1.F - u[k] * u[k];
    if constexpr (activation == Activation::none) slope[k] = splat(1);
  }
}

// body(r, u) for rows of two consecutive vectors: u, with the bias, for rows r and r + 1, or for the last
// one.
template <class Body>
inline void for_biased_rows(const float* sums, const float* bias, std::int64_t rows, const Body& body) {
  const vec left = load(bias), right = load(bias + lanes);
  std::int64_t r = 0;
  for (; r + 2 <= rows; r += 2, sums += 4 * lanes) {
    vec u[] = {load(sums) + left, load(sums + lanes) + right, load(sums + 2 * lanes) + left,
               load(sums + 3 * lanes) + right};
    body(r, u);
  }
  if (r < rows) {
    vec u[] = {load(sums) + left, load(sums + lanes) + right};
    body(r, u);
  }
}

COMERA_CPU_END
