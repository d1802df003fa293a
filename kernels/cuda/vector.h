#pragma once

#include "kernels/core/tensor.h"
#include "kernels/cuda/cuda.h"
#include "kernels/shared/step_values.h"

namespace comera::COMERA_CUDA {

// V neighbouring numbers as single-precision ones, whatever type they have in memory. Moved in one
// instruction where the address is a multiple of V elements.
template <int V>
struct Values {
  float at[V];
};

template <class T, int V>
struct alignas(sizeof(T) * V) Packed {
  T at[V];
};

template <int V, class T>
__device__ __forceinline__ Values<V> load(const T* from) {
  const auto packed = *reinterpret_cast<const Packed<T, V>*>(from);
  Values<V> values;
#pragma unroll
  for (int i = 0; i < V; ++i) values.at[i] = static_cast<float>(packed.at[i]);
  return values;
}
template <int V, class T>
__device__ __forceinline__ void store(T* to, const Values<V>& values) {
  Packed<T, V> packed;
#pragma unroll
  for (int i = 0; i < V; ++i) packed.at[i] = static_cast<T>(values.at[i]);
  *reinterpret_cast<Packed<T, V>*>(to) = packed;
}

// How many numbers a thread moves at once if rows of this width begin at multiples of it.
inline int vector_of(std::int64_t width) { return width % 4 == 0 ? 4 : 1; }

// A dropout as kernels use it: what is per launch is computed on the host.
struct DropoutMask {
  const DropoutKey* key = nullptr;  // in device memory, among StepInputs; null without dropout
  std::uint32_t site = 0;
  std::uint32_t threshold = 0;
  float scale = 1;
};

inline DropoutMask mask_of(const DropoutSpec& spec, const Tensor& step_inputs) {
  if (!spec.active()) return {};
  return {&static_cast<const StepInputs*>(step_inputs.raw())->dropout, spec.site, spec.threshold(),
          static_cast<float>(spec.scale())};
}

// What elements [element, element + V) are multiplied by; element is a multiple of V, which divides 4.
template <int V>
__device__ __forceinline__ Values<V> dropout_factors(const DropoutMask& mask, std::int64_t element) {
  Values<V> factors;
  if (mask.key == nullptr) {
#pragma unroll
    for (int i = 0; i < V; ++i) factors.at[i] = 1;
    return factors;
  }
  const Philox4 bytes = dropout_bytes(*mask.key, mask.site, static_cast<std::uint32_t>(element / 16));
  const std::uint32_t word = bytes.word[element % 16 / 4] >> (8 * (element % 4));
#pragma unroll
  for (int i = 0; i < V; ++i) factors.at[i] = ((word >> (8 * i)) & 255u) >= mask.threshold ? mask.scale : 0;
  return factors;
}

}  // namespace comera::COMERA_CUDA
