#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/cuda/cuda.h"
#include "kernels/shared/step_values.h"

namespace comera::COMERA_CUDA {

// V neighbouring numbers in single precision, whatever their type in memory. Moved in one instruction if the
// address is a multiple of V elements.
template <int V>
struct Values {
  float at[V];
};

// The memory representation. Instructions move up to 16 bytes, and tensors are aligned to that.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Packed {
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

// The register representation of values waiting to be used: narrow ones in pairs, which the compiler would
// split. For float and bfloat16.
template <class T, int V>
struct Waiting {
  std::uint32_t word[(sizeof(T) * V + 3) / 4];
};

template <int V, class T>
__device__ __forceinline__ Waiting<T, V> load_waiting(const T* from) {
  const auto packed = *reinterpret_cast<const Packed<T, V>*>(from);
  Waiting<T, V> waiting{};
  memcpy(&waiting, &packed, sizeof packed);
  return waiting;
}
// Stores to global memory. The instruction is written explicitly, because the compiler splits stores when it
// can relate the addresses of several of them.
template <class T, int V>
__device__ __forceinline__ void store_waiting(T* to, const Waiting<T, V>& waiting) {
#if defined(COMERA_EMULATED)
  memcpy(static_cast<void*>(to), &waiting, sizeof(T) * V);
#else
  const auto* word = waiting.word;
  const std::size_t place = __cvta_generic_to_global(to);
  if constexpr (sizeof(T) * V == 16)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(place), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
  else if constexpr (sizeof(T) * V == 8)
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" : : "l"(place), "r"(word[0]), "r"(word[1]) : "memory");
  else if constexpr (sizeof(T) * V == 4)
    asm volatile("st.global.b32 [%0], %1;" : : "l"(place), "r"(word[0]) : "memory");
  else
    asm volatile("st.global.b16 [%0], %1;"
                 :
                 : "l"(place), "h"(static_cast<unsigned short>(word[0]))
                 : "memory");
#endif
}
template <class T, int V>
__device__ __forceinline__ Values<V> values_of(const Waiting<T, V>& waiting) {
  Values<V> values;
#pragma unroll
  for (int i = 0; i < V; ++i)
    if constexpr (sizeof(T) == 4)
      values.at[i] = __uint_as_float(waiting.word[i]);
    else  // bfloat16: the upper half of a float
      values.at[i] = __uint_as_float(i % 2 == 0 ? waiting.word[i / 2] << 16 : waiting.word[i / 2] & ~0xffffu);
  return values;
}
template <class T, int V>
__device__ __forceinline__ Waiting<T, V> waiting_of(const Values<V>& values) {
  Waiting<T, V> waiting{};
#pragma unroll
  for (int i = 0; i < V; ++i)
    if constexpr (sizeof(T) == 4)
      waiting.word[i] = __float_as_uint(values.at[i]);
    else
      waiting.word[i / 2] |= std::uint32_t{static_cast<T>(values.at[i]).bits} << (i % 2 * 16);
  return waiting;
}

// How many elements a thread moves at once if rows of this width are aligned to them.
inline int vector_of(std::int64_t width) { return width % 4 == 0 ? 4 : 1; }

// Dropout parameters for kernels: values constant per launch are computed on the host.
struct DropoutMask {
  const DropoutKey* key = nullptr;  // in device memory, in StepInputs; null without dropout
  std::uint32_t site = 0;
  std::uint32_t threshold = 0;
  float scale = 1;
};

inline DropoutMask mask_of(const DropoutSpec& spec, const Tensor& step_inputs) {
  if (!spec.active()) return {};
  return {&static_cast<const StepInputs*>(step_inputs.raw())->dropout, spec.site, spec.threshold(),
          static_cast<float>(spec.scale())};
}

// The mask bytes of elements [element, element + V); element is a multiple of V, which divides 4.
template <int V>
__device__ __forceinline__ std::uint32_t dropout_word(const DropoutMask& mask, std::int64_t element) {
  const Philox4 bytes = dropout_bytes(*mask.key, mask.site, static_cast<std::uint32_t>(element / 16));
  return bytes.word[element % 16 / 4] >> (8 * (element % 4));
}

// The multiplier of element i of a word.
__device__ __forceinline__ float dropout_factor(const DropoutMask& mask, std::uint32_t word, int i) {
  const std::uint32_t byte = (word >> (8 * i)) & 255u;
  return byte >= mask.threshold ? mask.scale : 0;
}

// The multipliers of elements [element, element + V); element is a multiple of V, which divides 16.
template <int V>
__device__ __forceinline__ Values<V> dropout_factors(const DropoutMask& mask, std::int64_t element) {
  Values<V> factors;
  if (mask.key == nullptr) {
#pragma unroll
    for (int i = 0; i < V; ++i) factors.at[i] = 1;
    return factors;
  }
  const Philox4 bytes = dropout_bytes(*mask.key, mask.site, static_cast<std::uint32_t>(element / 16));
#pragma unroll
  for (int i = 0; i < V; i += 4) {
    const std::uint32_t word = bytes.word[(element + i) % 16 / 4] >> (8 * (element % 4));
#pragma unroll
    for (int k = i; k < i + 4 && k < V; ++k) factors.at[k] = dropout_factor(mask, word, k - i);
  }
  return factors;
}

// The sum of partial sums with stride `apart` in floats, in order.
template <int V>
__device__ __forceinline__ Values<V> sum_of_parts(const float* partial, std::int64_t parts,
                                                  std::int64_t apart) {
  Values<V> sum{};
  for (std::int64_t p = 0; p < parts; ++p) {
    const Values<V> part = load<V>(partial + p * apart);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
  }
  return sum;
}

}  // namespace comera::COMERA_CUDA
