// The formats of 8 bits, against an independent definition and, where the CUDA Toolkit's headers are there,
// against NVIDIA's conversions bit for bit.
#include "kernels/shared/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#if defined(COMERA_CUDA_FP8_HEADER)
#include <cuda_fp8.h>
#endif

namespace comera::test {
namespace {

template <class F>
struct Format;
template <>
struct Format<float8_e4m3> {
  static constexpr int mantissa_bits = 3, bias = 7;
  static constexpr int finite_codes = 0x7f;  // 0 to 0x7e
};
template <>
struct Format<float8_e5m2> {
  static constexpr int mantissa_bits = 2, bias = 15;
  static constexpr int finite_codes = 0x7c;
};

// As the format is defined: (-1)^s 2^(e - bias) (1 + m / 2^bits), or 2^(1 - bias) m / 2^bits for e = 0.
template <class F>
double defined(int code) {
  const int e = (code & 0x7f) >> Format<F>::mantissa_bits, m = code & ((1 << Format<F>::mantissa_bits) - 1);
  const double fraction = std::ldexp(m, -Format<F>::mantissa_bits);
  const double value =
      e == 0 ? std::ldexp(fraction, 1 - Format<F>::bias) : std::ldexp(1 + fraction, e - Format<F>::bias);
  return (code & 0x80) != 0 ? -value : value;
}

// The nearest finite number by search; of two, the one with the even code.
template <class F>
int nearest(float value) {
  if (std::isnan(value)) return 0x7f;
  const double magnitude = std::min(std::abs(static_cast<double>(value)), 1e9);  // any number beyond all
  int best = 0;
  for (int code = 1; code < Format<F>::finite_codes; ++code) {
    const double here = std::abs(magnitude - defined<F>(code)),
                 there = std::abs(magnitude - defined<F>(best));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

template <class F>
int code_of(float value) {
  return F(value).bits;
}

float float_of(std::uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
std::uint32_t word_of(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

// Every number halfway between two neighbours, the numbers themselves, and the floats next to all of them;
// also beyond both ends.
template <class F>
std::vector<float> awkward() {
  std::vector<float> list = {0.F,
                             std::numeric_limits<float>::denorm_min(),
                             std::numeric_limits<float>::min(),
                             std::numeric_limits<float>::max(),
                             std::numeric_limits<float>::infinity(),
                             1e6F,
                             465.F,
                             61440.F,
                             61441.F};
  for (int code = 0; code < Format<F>::finite_codes; ++code) {
    const double value = defined<F>(code);
    list.push_back(static_cast<float>(value));
    const double next =
        code + 1 < Format<F>::finite_codes ? defined<F>(code + 1) : 2 * value - defined<F>(code - 1);
    list.push_back(static_cast<float>((value + next) / 2));
  }
  for (std::size_t i = 0, count = list.size(); i < count; ++i)
    for (const float end : {0.F, std::numeric_limits<float>::infinity()})
      list.push_back(std::nextafter(list[i], end));
  for (std::size_t i = 0, count = list.size(); i < count; ++i) list.push_back(-list[i]);
  return list;
}

template <class F>
class Float8 : public testing::Test {};
using Formats = testing::Types<float8_e4m3, float8_e5m2>;
struct FormatNames {
  template <class F>
  static std::string GetName(int) {
    return std::is_same_v<F, float8_e4m3> ? "e4m3" : "e5m2";
  }
};
TYPED_TEST_SUITE(Float8, Formats, FormatNames);

TYPED_TEST(Float8, CodesAreTheFormatsNumbers) {
  for (int code = 0; code < 256; ++code) {
    TypeParam stored;
    stored.bits = static_cast<std::uint8_t>(code);
    const auto value = static_cast<float>(stored);
    if ((code & 0x7f) >= Format<TypeParam>::finite_codes) {
      const bool infinite = std::is_same_v<TypeParam, float8_e5m2> && (code & 0x7f) == 0x7c;
      EXPECT_EQ(std::isinf(value), infinite) << code;
      EXPECT_EQ(std::isnan(value), !infinite) << code;
    } else {
      EXPECT_EQ(value, defined<TypeParam>(code)) << code;
      EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
      EXPECT_EQ(code_of<TypeParam>(value), code) << "a number is its own nearest";
    }
  }
  EXPECT_EQ(TypeParam::largest, defined<TypeParam>(Format<TypeParam>::finite_codes - 1));
}

TYPED_TEST(Float8, HalfwayCasesAndTheirNeighboursAreRoundedToTheNearest) {
  for (const float value : awkward<TypeParam>())
    EXPECT_EQ(code_of<TypeParam>(value), nearest<TypeParam>(value)) << word_of(value);
}

TYPED_TEST(Float8, NaNStaysNaN) {
  for (const std::uint32_t word : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u})
    EXPECT_EQ(code_of<TypeParam>(float_of(word)), 0x7f);
}

// The largest power of two that keeps the largest number finite, and the effect of a margin.
TYPED_TEST(Float8, TheScaleUsesTheWholeRange) {
  std::mt19937 random(3);
  const float largest = TypeParam::largest;
  for (int i = 0; i < 100'000; ++i) {
    float amax = std::abs(float_of(random() & 0x7fffffffu));
    if (i < 20) amax = std::ldexp(largest, i - 10);
    if (!(amax >= 1e-30F && amax <= 1e30F)) continue;
    Float8Scale scale;
    set_float8_scale(amax, largest, 0, scale);
    EXPECT_EQ(std::ldexp(1.F, std::ilogb(scale.scale)), scale.scale) << "no power of two";
    EXPECT_EQ(scale.scale * scale.inverse, 1);
    EXPECT_LE(amax * scale.scale, largest);
    EXPECT_GT(2 * amax * scale.scale, largest);
    Float8Scale ld;
    set_float8_scale(amax, largest, 3, ld);
    EXPECT_EQ(ld.scale * 8, scale.scale);
  }
  // Uninformative values, or ones far outside of the range.
  for (const float amax :
       {0.F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Float8Scale scale{.inverse = 0.25F, .scale = 4};
    set_float8_scale(amax, largest, 0, scale);
    EXPECT_EQ(scale.scale, 4) << amax;
  }
  for (const float amax : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()}) {
    Float8Scale scale;
    set_float8_scale(amax, largest, 0, scale);
    EXPECT_TRUE(std::isfinite(scale.scale) && std::isfinite(scale.inverse) &&
                scale.scale * scale.inverse == 1);
    EXPECT_LE(amax * scale.scale, largest);
  }
}

#if defined(COMERA_CUDA_FP8_HEADER)

template <class F>
constexpr __nv_fp8_interpretation_t interpretation = std::is_same_v<F, float8_e4m3> ? __NV_E4M3 : __NV_E5M2;

TYPED_TEST(Float8, ConvertsAsNvidiasHeaders) {
  for (int code = 0; code < 256; ++code) {
    TypeParam stored;
    stored.bits = static_cast<std::uint8_t>(code);
    const __half_raw half =
        __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), interpretation<TypeParam>);
    const auto theirs = static_cast<float>(__half(half)), ours = static_cast<float>(stored);
    if (std::isnan(theirs))
      EXPECT_TRUE(std::isnan(ours)) << code;
    else
      EXPECT_EQ(word_of(ours), word_of(theirs)) << code;
  }
  const auto theirs = [](float value) -> int {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, interpretation<TypeParam>);
  };
  for (const float value : awkward<TypeParam>())
    EXPECT_EQ(code_of<TypeParam>(value), theirs(value)) << word_of(value);
  // Ten million floats, half of them any bits, half within the format's range.
  std::mt19937 random(7);
  std::int64_t wrong = 0;
  for (int i = 0; i < 10'000'000; ++i) {
    const std::uint32_t word = random();
    const std::uint32_t near_one = (word & 0x80ffffffu) | (118u + random() % 28u) << 23;
    const float value = float_of(i % 2 == 0 ? word : near_one);
    wrong += code_of<TypeParam>(value) != theirs(value);
  }
  EXPECT_EQ(wrong, 0);
}

#endif

}  // namespace
}  // namespace comera::test
