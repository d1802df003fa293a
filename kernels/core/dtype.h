#pragma once

#include <cstddef>
#include <cstdint>

namespace comera {

enum class DType : std::uint8_t { float32, float64, int32, int64, uint8 };

std::size_t size_of(DType dtype);
const char* name_of(DType dtype);

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
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace comera
