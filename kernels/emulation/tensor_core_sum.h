#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace comera::emulation {

// The float32 number next to x towards zero, as in hardware that truncates.
inline float cut_to_float(double x) {
  const auto rounded = static_cast<float>(x);
  return std::abs(rounded) > std::abs(x) ? std::nextafter(rounded, 0.F) : rounded;
}

// A sum of tensor cores (Fasi et al., "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science
// 2021): the addends (exact products and the previous value) are shifted to the largest one's exponent and
// lose the bits below `bits` of its significand; the remaining bits are added exactly, and the sum is
// truncated to float32. Nothing is rounded to nearest, so that errors of long sums add up.
inline float tensor_core_sum(const double* addends, int count, int bits) {
  constexpr std::uint64_t exponent_bits = 0x7ff;
  const auto exponent = [](double x) { return std::bit_cast<std::uint64_t>(x) >> 52 & exponent_bits; };
  const auto power = [](std::uint64_t biased) { return std::bit_cast<double>(biased << 52); };
  std::uint64_t largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, exponent(addends[i]));
  if (largest == exponent_bits || largest == 0) {  // infinite or NaN; or all zero
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += addends[i];
    return static_cast<float>(sum);
  }
  // The last position that is kept, 2^(exponent - bits + 1), and the value in its units.
  const auto shift = static_cast<std::uint64_t>(bits - 1);
  const double place = power(largest - shift), places = power(2 * 1023 - largest + shift);
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += static_cast<std::int64_t>(addends[i] * places);
  return cut_to_float(static_cast<double>(sum) * place);
}

// For an A100, which truncates more often than its successors: 24 bits and one more.
inline constexpr int kept_bits = 25;
// For 8-bit operands on Hopper: about 14 in all (DeepSeek-V3 Technical Report, 2024, section 3.3.2), with 32
// products at a time.
inline constexpr int kept_bits_of_8_bit = 14, products_of_8_bit = 32;

// cvt.rna.tf32.f32: to 10 bits of mantissa, ties away from zero.
inline unsigned round_to_tf32(float x) {
  const auto word = std::bit_cast<unsigned>(x);
  if ((word & 0x7f800000u) == 0x7f800000u) return word & 0xffffe000u;  // infinite, or a (quiet) NaN
  return (word + 0x1000u) & 0xffffe000u;
}

}  // namespace comera::emulation
