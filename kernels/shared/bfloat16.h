#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/shared/host_device.h"

namespace comera {

// The upper half of a float: 8 bits of exponent, 7 of mantissa. A storage type; arithmetic is done in float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  // Rounded to nearest, ties to even; a NaN stays a (quiet) NaN.
  COMERA_HOST_DEVICE explicit bfloat16(float value) : bits(round_bits(value)) {}
  COMERA_HOST_DEVICE explicit operator float() const {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
  }

 private:
  static COMERA_HOST_DEVICE std::uint16_t round_bits(float value) {
#if defined(__CUDA_ARCH__)
    std::uint16_t rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    return rounded;
#else
    std::uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(word >> 16 | 0x40u);
    return static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
#endif
  }
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace comera
