#pragma once

#include "kernels/cuda/launch.h"

// Sums over the threads of a warp or a block, always in the same order, so that they are bit-reproducible.
namespace comera::COMERA_CUDA {

inline constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x % warp); }
__device__ __forceinline__ int warp_of_thread() { return static_cast<int>(threadIdx.x / warp); }

// threadIdx.x, read again each time, so that derived values need not stay in registers between uses.
__device__ __forceinline__ unsigned opaque_thread_index() {
#if defined(COMERA_EMULATED)
  return threadIdx.x;
#else
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#endif
}

// The result is in every lane. All lanes of the warp must call.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int bits = warp / 2; bits > 0; bits /= 2) value += __shfl_xor_sync(all_lanes, value, bits);
  return value;
}

// For N values at once, a power of two: lane l gets the sum of value l / (32 / N). Halves of the lanes
// exchange halves of the values, which takes a fifth of the shuffles of N warp_sum(). All lanes must call.
template <int N>
__device__ __forceinline__ float warp_sums(float (&values)[N]) {
  int count = N / 2;
#pragma unroll
  for (int bits = warp / 2; bits > 0; bits /= 2, count /= 2) {
    const bool upper = (lane_of_thread() & bits) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float other = upper ? values[i] : values[i + count];
      values[i] = (upper ? values[i + count] : values[i]) + __shfl_xor_sync(all_lanes, other, bits);
    }
    if (count == 0) values[0] += __shfl_xor_sync(all_lanes, values[0], bits);
  }
  return values[0];
}

// The result is in every thread; all threads of the block must call, and their number must be a multiple of
// 32. `scratch` is shared memory for one T per warp, reusable at once.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
  value = warp_sum(value);
  if (lane_of_thread() == 0) scratch[warp_of_thread()] = value;
  __syncthreads();
  T sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / warp; ++w) sum += scratch[w];
  __syncthreads();
  return sum;
}

// The same for the minimum.
__device__ __forceinline__ int block_least(int value, int* scratch) {
#pragma unroll
  for (int bits = warp / 2; bits > 0; bits /= 2) value = min(value, __shfl_xor_sync(all_lanes, value, bits));
  if (lane_of_thread() == 0) scratch[warp_of_thread()] = value;
  __syncthreads();
  for (int w = 0; w < static_cast<int>(blockDim.x) / warp; ++w) value = min(value, scratch[w]);
  __syncthreads();
  return value;
}

}  // namespace comera::COMERA_CUDA
