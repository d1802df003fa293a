#pragma once

#include "kernels/cpu/simd_math.h"
#include "kernels/ops/elementwise/activation.h"

COMERA_CPU_BEGIN

// 1 / (1 + exp(-x)); exactly 0 where exp() would saturate, so that the largest numbers times it are 0 too.
inline vec sigmoid(vec x) {
  const vec value = 1.F / (1.F + exp(0.F - x));
  return x < splat(-87.F) ? splat(0) : value;
}

// u sigmoid(x): x = 2 sqrt(2 / π) (u + 0.044715 u³) of GELU's approximation, u itself of SiLU. slope: dx /
// du.
struct Sigmoidal {
  vec x, slope;
};
inline Sigmoidal gelu_tanh_parts(vec u) {
  const vec within = min(splat(16.F), max(splat(-16.F), u));  // beyond, the sigmoid is 0 or 1
  const vec square = within * within;
  return {within * (square * 0.0713548163F + 1.595769122F), square * 0.214064449F + 1.595769122F};
}

// u becomes the activation of u, and slope its derivative there.
template <Activation activation>
inline void activate_one(vec& u, vec& slope) {
  switch (activation) {
    case Activation::none:
      slope = splat(1);
      return;
    case Activation::gelu: {
      vec one[] = {u}, its[1];
      gelu_with_slope(one, its);
      u = one[0];
      slope = its[0];
      return;
    }
    case Activation::gelu_tanh: {
      const Sigmoidal parts = gelu_tanh_parts(u);
      const vec s = sigmoid(parts.x), value = u * s;
      slope = s + value * (1.F - s) * parts.slope;
      u = value;
      return;
    }
    case Activation::relu:
      slope = u > splat(0) ? splat(1) : splat(0);
      u = max(splat(0), u);  // a NaN stays one
      return;
    case Activation::silu: {
      const vec s = sigmoid(u), value = u * s;
      slope = s + value * (1.F - s);
      u = value;
      return;
    }
    case Activation::tanh:
      u = tanh(u);
      slope = 1.F - u * u;
      return;
  }
}

template <Activation activation>
inline vec activated(vec u) {
  if constexpr (activation == Activation::gelu) return gelu(u);  // without the terms of its slope
  vec unused;
  activate_one<activation>(u, unused);
  return u;
}

// dy activation'; saved is the argument u or the value y, as traits_of() says.
template <Activation activation>
inline vec derivative_times(vec dy, vec saved) {
  switch (activation) {
    case Activation::none:
      return dy;
    case Activation::gelu:
    case Activation::gelu_tanh:
    case Activation::silu: {
      vec slope;
      activate_one<activation>(saved, slope);
      return dy * slope;
    }
    case Activation::relu:
      return dy * (saved > splat(0) ? splat(1) : splat(0));
    case Activation::tanh:
      return dy * (1.F - saved * saved);
  }
  __builtin_unreachable();
}

// The same for several vectors (see GeluPlaces); overwrites saved.
template <Activation activation, int Vectors>
inline void times_derivatives(vec (&dy)[Vectors], vec (&saved)[Vectors]) {
  if constexpr (activation == Activation::gelu) {
    vec slope[Vectors];
    gelu_with_slope(saved, slope);
    for (int k = 0; k < Vectors; ++k) dy[k] *= slope[k];
  } else {
    for (int k = 0; k < Vectors; ++k) dy[k] = derivative_times<activation>(dy[k], saved[k]);
  }
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
  for (int k = 0; k < Vectors; ++k) activate_one<activation>(u[k], slope[k]);
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
