#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/activation.h"

namespace comera::COMERA_CUDA {

__device__ __forceinline__ float normal_cdf(float x) { return 0.5F * (1 + erff(x * 0.70710678118654752F)); }

__device__ __forceinline__ float activate(Activation activation, float u) {
  if (activation == Activation::gelu) return u * normal_cdf(u);
  if (activation == Activation::tanh) return tanhf(u);
  return u;
}

// gelu by its argument, tanh by its value.
__device__ __forceinline__ float slope(Activation activation, float u_or_y) {
  if (activation == Activation::gelu)
    return normal_cdf(u_or_y) + u_or_y * 0.39894228040143268F * expf(-0.5F * u_or_y * u_or_y);
  if (activation == Activation::tanh) return 1 - u_or_y * u_or_y;
  return 1;
}

}  // namespace comera::COMERA_CUDA
