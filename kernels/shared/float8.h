#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/shared/host_device.h"

namespace comera {

// The two 8-bit floating-point formats of the OCP 8-bit Floating Point Specification (OFP8, revision 1.0), as
// in NVIDIA's conversions with saturation to finite numbers (cuda_fp8.h, __NV_SATFINITE): round to nearest,
// ties to even; numbers that are too large, including infinity, become the largest finite number; a NaN of
// either sign becomes the code 0x7f. Storage types; arithmetic is done in float.
namespace float8_detail {

// The code of a number in a format with this many mantissa bits and this exponent bias. `largest`: the code
// of the largest finite number.
template <int mantissa_bits, int bias, std::uint8_t largest>
COMERA_HOST_DEVICE std::uint8_t round_bits(float value) {
  std::uint32_t word;
  memcpy(&word, &value, sizeof word);
  const std::uint32_t magnitude = word & 0x7fffffffu;
  const auto sign = static_cast<std::uint8_t>(word >> 24 & 0x80u);
  if (magnitude > 0x7f800000u) return 0x7f;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  constexpr int least = 1 - bias;  // exponent of the smallest normal number
  // Bits of the 24-bit significand that are rounded off; more where the result is subnormal.
  const int shift = 23 - mantissa_bits + (exponent < least ? least - exponent : 0);
  if (shift > 24) return sign;  // less than half of the smallest number, or 0
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t odd = significand >> shift & 1u;
  const std::uint32_t rounded = (significand + (1u << (shift - 1)) - 1 + odd) >> shift;
  // A significand that reaches the next power of two carries into the exponent automatically.
  const std::uint32_t code =
      exponent < least ? rounded : (static_cast<std::uint32_t>(exponent - least) << mantissa_bits) + rounded;
  return static_cast<std::uint8_t>(sign | (code > largest ? largest : code));
}

// The number of a finite code.
template <int mantissa_bits, int bias>
COMERA_HOST_DEVICE float number(std::uint8_t code) {
  const std::uint32_t field = code >> mantissa_bits & (0x7fu >> mantissa_bits);
  const std::uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  std::uint32_t word;
  float value;
  if (field > 0) {
    word = (field + 127 - bias) << 23 | mantissa << (23 - mantissa_bits);
    memcpy(&value, &word, sizeof value);
  } else {
    word = static_cast<std::uint32_t>(127 + 1 - bias - mantissa_bits) << 23;  // the smallest number
    memcpy(&value, &word, sizeof value);
    value *= static_cast<float>(mantissa);
  }
  return (code & 0x80u) != 0 ? -value : value;
}

COMERA_HOST_DEVICE float from_bits(std::uint32_t word) {
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace float8_detail

// 1 bit of sign, 4 of exponent, 3 of mantissa: up to 448 in steps of 1/16 to 1/8; no infinity. For forward
// operands.
struct float8_e4m3 {
  static constexpr float largest = 448;

  std::uint8_t bits = 0;

  float8_e4m3() = default;
  COMERA_HOST_DEVICE explicit float8_e4m3(float value) : bits(float8_detail::round_bits<3, 7, 0x7e>(value)) {}
  COMERA_HOST_DEVICE explicit operator float() const {
    if ((bits & 0x7fu) == 0x7fu) return float8_detail::from_bits(0x7fffffffu);
    return float8_detail::number<3, 7>(bits);
  }
};

// 1 bit of sign, 5 of exponent, 2 of mantissa: up to 57344. For gradients, which span more powers of two.
// Infinity is read, but never produced.
struct float8_e5m2 {
  static constexpr float largest = 57344;

  std::uint8_t bits = 0;

  float8_e5m2() = default;
  COMERA_HOST_DEVICE explicit float8_e5m2(float value)
      : bits(float8_detail::round_bits<2, 15, 0x7b>(value)) {}
  COMERA_HOST_DEVICE explicit operator float() const {
    const unsigned magnitude = bits & 0x7fu;
    if (magnitude > 0x7cu) return float8_detail::from_bits(0x7fffffffu);
    if (magnitude == 0x7cu) return float8_detail::from_bits((bits & 0x80u) << 24 | 0x7f800000u);
    return float8_detail::number<2, 15>(bits);
  }
};
// The scale of a tensor stored in 8 bits, in device memory. Scales are powers of two, so that scaling is
// exact: a code's value is exact in every wider type, and every backend agrees on it. A number's relative
// precision does not depend on its scale, so the only loss is a little range.
struct alignas(16) Float8Scale {
  float inverse = 1;  // first, because cuBLASLt reads it, only at multiples of 16 bytes
  float scale = 1;    // stored value = value times scale
  float amax = 0;     // largest magnitude quantised since the last reset; infinite or NaN if any was
  float padding = 0;
};
static_assert(sizeof(Float8Scale) == 16);

// The largest power of two with which `amax` does not exceed `largest`, times 2^-margin. If amax is
// uninformative (0, infinity, NaN), the scale is unchanged.
COMERA_HOST_DEVICE void set_float8_scale(float amax, float largest, int margin, Float8Scale& scale) {
  std::uint32_t word, limit;
  memcpy(&word, &amax, sizeof word);
  memcpy(&limit, &largest, sizeof limit);
  if (word == 0 || word >= 0x7f800000u) return;
  if (word < 0x800000u) word = 0x800000u;  // subnormal: treated as the smallest normal number
  // Both are a power of two times a significand of 1 to 2.
  int exponent = static_cast<int>(limit >> 23) - static_cast<int>(word >> 23) - margin;
  if ((word & 0x7fffffu) > (limit & 0x7fffffu)) --exponent;
  exponent = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  scale.scale = float8_detail::from_bits(static_cast<std::uint32_t>(exponent + 127) << 23);
  scale.inverse = float8_detail::from_bits(static_cast<std::uint32_t>(127 - exponent) << 23);
}

static_assert(sizeof(float8_e4m3) == 1 && sizeof(float8_e5m2) == 1);

}  // namespace comera
