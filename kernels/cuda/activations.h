#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/activation.h"

namespace comera::COMERA_CUDA {

// Single instructions, accurate to about 22 bits. The library's functions, with more bits and correct for the
// smallest numbers, take several times as long as the memory accesses of a kernel.
#if defined(COMERA_EMULATED)
inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_reciprocal(float x) { return 1 / x; }
#else
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

// exp(-x² / 2)
__device__ __forceinline__ float bell(float x) { return fast_exp2(-0.72134752F * x * x); }

// The normal distribution function, given bell(x). Its lower tail is bell(x) times a polynomial of 1 / (1 +
// 0.28 |x|), after Hastings (Abramowitz and Stegun, 7.1.26) with one more term: fitted to an absolute error
// of 6e-9, which rounding to float32 raises to 2e-7.
__device__ __forceinline__ float normal_cdf(float x, float bell_of_x) {
  const float t = fast_reciprocal(1 + 0.28F * fabsf(x));
  float sum = -0.1035947F;
  sum = sum * t + 0.38046376F;
  sum = sum * t - 0.22106099F;
  sum = sum * t + 0.25548329F;
  sum = sum * t + 0.07312808F;
  sum = sum * t + 0.11558057F;
  const float tail = sum * t * bell_of_x;
  return x > 0 ? 1 - tail : tail;
}

__device__ __forceinline__ float activate(Activation activation, float u) {
  if (activation == Activation::gelu) return u * normal_cdf(u, bell(u));
  if (activation == Activation::tanh) return tanhf(u);
  if (activation == Activation::relu) return u < 0 ? 0 : u;  // a NaN stays NaN
  return u;
}

// From the argument, or from the value where slope_by_value().
__device__ __forceinline__ float slope(Activation activation, float u_or_y) {
  if (activation == Activation::gelu) {
    const float e = bell(u_or_y);
    return normal_cdf(u_or_y, e) + u_or_y * 0.39894228F * e;
  }
  if (activation == Activation::tanh) return 1 - u_or_y * u_or_y;
  if (activation == Activation::relu) return u_or_y > 0 ? 1 : 0;
  return 1;
}

}  // namespace comera::COMERA_CUDA
