#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/shared/bfloat16.h"
#include "kernels/shared/float8.h"

namespace comera {

enum class DType : std::uint8_t { float32, float64, int32, int64, uint8, bfloat16, float8_e4m3, float8_e5m2 };

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);

// The type of parameters, their gradients, statistics and contracted cores for a given compute type: nothing
// narrower than float32.
constexpr DType master_of(DType compute) { return compute == DType::bfloat16 ? DType::float32 : compute; }

// Storage only: operands of 8-bit products.
constexpr bool is_float8(DType dtype) { return dtype == DType::float8_e4m3 || dtype == DType::float8_e5m2; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float8_e4m3> {
  static constexpr DType value = DType::float8_e4m3;
};
template <>
struct DTypeOf<float8_e5m2> {
  static constexpr DType value = DType::float8_e5m2;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace comera
