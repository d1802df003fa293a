#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/elementwise/activation.h"

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

// 1 / (1 + exp(-x))
__device__ __forceinline__ float sigmoid(float x) { return fast_reciprocal(1 + fast_exp2(-1.44269504F * x)); }

// 2 sqrt(2 / π) (u + 0.044715 u³) of GELU's approximation: beyond ±16 its sigmoid is 0 or 1.
__device__ __forceinline__ float gelu_tanh_argument(float u) {
  const float within = fminf(16.F, fmaxf(-16.F, u));
  return within * (within * within * 0.0713548163F + 1.595769122F);
}

__device__ __forceinline__ float activate(Activation activation, float u) {
  switch (activation) {
    case Activation::none:
      return u;
    case Activation::gelu:
      return u * normal_cdf(u, bell(u));
    case Activation::gelu_tanh:
      return u * sigmoid(gelu_tanh_argument(u));
    case Activation::relu:
      return u < 0 ? 0 : u;  // a NaN stays one
    case Activation::silu:
      return u * sigmoid(u);
    case Activation::tanh:
      return tanhf(u);
  }
  return u;
}

// By its argument or by its value, as traits_of() says.
__device__ __forceinline__ float slope(Activation activation, float u_or_y) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::gelu: {
      const float e = bell(u_or_y);
      return normal_cdf(u_or_y, e) + u_or_y * 0.39894228F * e;
    }
    case Activation::gelu_tanh: {
      const float s = sigmoid(gelu_tanh_argument(u_or_y)), within = fminf(16.F, fmaxf(-16.F, u_or_y));
      return s + u_or_y * s * (1 - s) * (within * within * 0.214064449F + 1.595769122F);
    }
    case Activation::relu:
      return u_or_y > 0 ? 1 : 0;
    case Activation::silu: {
      const float s = sigmoid(u_or_y);
      return s + u_or_y * s * (1 - s);
    }
    case Activation::tanh:
      return 1 - u_or_y * u_or_y;
  }
  return 1;
}

}  // namespace comera::COMERA_CUDA
