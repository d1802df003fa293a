#pragma once

#include "kernels/cpu/elementwise/gelu_table.h"
#include "kernels/cpu/simd.h"

COMERA_CPU_BEGIN

// e^x to 2 ulp: x = n ln 2 + r, |r| <= ln 2 / 2. Saturates near the ends of float instead of overflowing. NaN
// gives NaN.
inline vec exp(vec x) {
  x = min(splat(88.37f), max(splat(-87.33f), x));
  const float round = 12582912.f;  // 1.5 * 2^23: adding it puts the nearest integer into the low bits
  const vec shifted = x * 1.44269504f + round;
  const vec n = shifted - round;
  const vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  vec p = r * 1.392618181e-3f + 8.36317763e-3f;
  p = p * r + 4.166655463e-2f;
  p = p * r + 1.6666577e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.f;
  const ivec exponent = ((ivec)shifted + 127) << 23;  // the bits of `round` are shifted out at the top
  return p * (vec)exponent;
}

// 2^x to about 2 ulp for |x| < 126, and exactly 1 for 0. Beyond that, AVX-512 continues to 0 and infinity,
// and AVX2 saturates. NaN gives NaN.
inline vec exp2(vec x) {
#ifdef __AVX512F__
  const vec r = (vec)_mm512_reduce_ps((__m512)x, _MM_FROUND_NO_EXC);  // x - n, n the nearest integer
  const vec n = x - r;
#else
  x = min(splat(127.f), max(splat(-126.f), x));
  const float round = 12582912.f;  // as in exp
  const vec shifted = x + round;
  const vec n = shifted - round;
  const vec r = x - n;
#endif
  vec p = r * 1.326472731e-3f + 9.671512991e-3f;
  p = p * r + 5.550733581e-2f;
  p = p * r + 0.2402224243f;
  p = p * r + 0.6931470037f;
  p = p * r + 1.f;
#ifdef __AVX512F__
  return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  return p * (vec)(((ivec)shifted + 127) << 23);
#endif
}

#ifdef __AVX512F__
// The position of |x| of several vectors in kernels/cpu/elementwise/gelu_table.h: a piece, in the low four
// bits, and an offset in it, which is NaN where x is. All steps are interleaved across the vectors: each
// depends on the previous step, and a processor does not look far enough ahead to overlap whole vectors.
template <int Vectors>
struct GeluPlaces {
  vec piece[Vectors], place[Vectors];
  vec positive[Vectors];  // max(x, 0); NaN for -∞, as -∞ Φ(-∞)

  explicit GeluPlaces(const vec (&x)[Vectors]) {
    const float round = 12582912.f;  // as in exp
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k) positive[k] = multiply_add(abs(x[k]), splat(0.5f), x[k] * 0.5f);
    const vec per_piece = splat(static_cast<float>(1 / gelu_table::width));
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k) place[k] = min(splat(static_cast<float>(gelu_table::end)), abs(x[k]));
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k) piece[k] = multiply_add(place[k], per_piece, splat(round));
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k) place[k] = multiply_add(place[k], per_piece, round - piece[k]);
  }
  template <int terms>
  vec coefficient(int i, int k) const {
    const float* of_pieces = gelu_table::table<terms>.coefficients[i].data();
    return (vec)_mm512_permutexvar_ps((__m512i)piece[k], _mm512_load_ps(of_pieces));
  }
};

// x becomes GELU(x).
template <int Vectors>
inline __attribute__((always_inline)) void gelu(vec (&x)[Vectors]) {
  constexpr int terms = 6;
  const GeluPlaces<Vectors> at(x);
  vec g[Vectors];
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k) g[k] = at.template coefficient<terms>(terms - 1, k);
#pragma GCC unroll 8
  for (int i = terms - 2; i >= 0; --i) {
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k)
      g[k] = multiply_add(g[k], at.place[k], at.template coefficient<terms>(i, k));
  }
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k) x[k] = at.positive[k] - g[k];
}
// The same, and the derivative at the original x.
template <int Vectors>
inline __attribute__((always_inline)) void gelu_with_slope(vec (&x)[Vectors], vec (&slope)[Vectors]) {
  constexpr int terms = 7;
  const GeluPlaces<Vectors> at(x);
  vec derivative[Vectors], g[Vectors];
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k) derivative[k] = at.template coefficient<terms>(terms - 1, k);
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k)
    g[k] = multiply_add(derivative[k], at.place[k], at.template coefficient<terms>(terms - 2, k));
#pragma GCC unroll 8
  for (int i = terms - 3; i >= 0; --i) {
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k) derivative[k] = multiply_add(derivative[k], at.place[k], g[k]);
#pragma GCC unroll 8
    for (int k = 0; k < Vectors; ++k)
      g[k] = multiply_add(g[k], at.place[k], at.template coefficient<terms>(i, k));
  }
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k) {
    derivative[k] *= static_cast<float>(1 / gelu_table::width);
    slope[k] = x[k] < 0 ? derivative[k] : 1.f - derivative[k];
  }
#pragma GCC unroll 8
  for (int k = 0; k < Vectors; ++k) x[k] = at.positive[k] - g[k];
}
#else
struct GeluParts {
  vec cdf;      // Φ(x) = (1 + erf(x / √2)) / 2
  vec density;  // exp(-x² / 2)
};

// Φ by a rational-times-exponential form of erf (Abramowitz and Stegun, 7.1.26; error 1.5e-7), whose
// exponential is the normal density that the derivative needs too. Permutations of 8 lanes are too short for
// the table.
inline GeluParts gelu_parts(vec x) {
  const vec a = abs(x);
  const vec density = exp(a * a * -0.5f);
  const vec t = 1.f / (a * 0.231641888f + 1.f);
  vec p = t * 0.5307027145f - 0.7265760135f;
  p = p * t + 0.7107068705f;
  p = p * t - 0.142248368f;
  p = p * t + 0.127414796f;
  const vec tail = p * t * density;  // Φ(-|x|)
  return {x < 0 ? tail : 1.f - tail, density};
}
template <int Vectors>
inline void gelu(vec (&x)[Vectors]) {
  for (vec& v : x) v = v * gelu_parts(v).cdf;
}
template <int Vectors>
inline void gelu_with_slope(vec (&x)[Vectors], vec (&slope)[Vectors]) {
  for (int k = 0; k < Vectors; ++k) {
    const GeluParts parts = gelu_parts(x[k]);
    slope[k] = parts.cdf + x[k] * parts.density * 0.3989422804f;
    x[k] = x[k] * parts.cdf;
  }
}
#endif
inline vec gelu(vec x) {
  vec one[] = {x};
  gelu(one);
  return one[0];
}
inline vec gelu_derivative(vec x) {
  vec one[] = {x}, slope[1];
  gelu_with_slope(one, slope);
  return slope[0];
}

inline vec tanh(vec x) {
  const vec a = abs(x);
  const vec e = exp(a * -2.f);
  const vec far = (1.f - e) / (1.f + e);
  const vec s = x * x;  // near 0 the difference above cancels
  const vec near = a + a * s * (((s * -0.05396825397f + 0.1333333333f) * s) - 0.3333333333f);
  const vec value = a >= 0.125f ? far : near;  // NaN selects near, which propagates it
  return (vec)((ivec)value | ((ivec)x & static_cast<std::int32_t>(0x80000000u)));
}

COMERA_CPU_END
