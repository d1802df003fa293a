// The vector kernels of the CPU against the formats' own conversions, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/float8.h"
#include "kernels/shared/float8_code.h"
#include "tests/cpu/float8_activation.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

float number(std::uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Every 4,096th float and its neighbours: all exponents, all halfway cases of both formats, infinities, NaNs.
std::vector<float> all_kinds_of_numbers() {
  std::vector<float> numbers;
  for (std::uint64_t word = 0; word < std::uint64_t{1} << 32; word += 1 << 12)
    for (const int off : {-1, 0, 1}) numbers.push_back(number(static_cast<std::uint32_t>(word + off)));
  return numbers;
}

template <class F>
void expect_the_formats_codes(DType type) {
  const std::vector<float> numbers = all_kinds_of_numbers();
  constexpr std::int64_t columns = 1000;  // in rows that end within a vector
  Harness harness(cpu_backend());
  const Tensor x = harness.tensor({1 << 20}, DType::float32);
  const Tensor scale = harness.tensor({sizeof(Float8Scale)}, DType::uint8);
  *static_cast<Float8Scale*>(scale.raw()) = {};
  for (std::size_t begin = 0; begin < numbers.size(); begin += 1 << 20) {
    const auto count = static_cast<std::int64_t>(std::min<std::size_t>(numbers.size() - begin, 1 << 20));
    const std::int64_t rows = count / columns, padded = float8_padded(columns);
    std::copy_n(numbers.data() + begin, count, x.data<float>());
    const Tensor straight = harness.tensor({float8_padded(rows), padded}, type),
                 transposed = harness.tensor({padded, float8_padded(rows)}, type);
    run(harness.context(), Float8Quantize{.x = x,
                                          .rows = rows,
                                          .columns = columns,
                                          .scaling = Float8Quantize::Scaling::kept,
                                          .scale = scale,
                                          .y = straight,
                                          .transposed = transposed});
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        // Denormal floats count as 0, as everywhere on the CPU.
        const std::uint8_t expected = float8_code<F>(numbers[begin + row * columns + column], 1).bits;
        wrong += straight.data<F>()[row * padded + column].bits != expected;
        wrong += transposed.data<F>()[column * float8_padded(rows) + row].bits != expected;
      }
    EXPECT_EQ(wrong, 0) << "from number " << begin;
  }
}

TEST(Float8OfTheCpu, E4M3IsTheFormats) { expect_the_formats_codes<float8_e4m3>(DType::float8_e4m3); }
TEST(Float8OfTheCpu, E5M2IsTheFormats) { expect_the_formats_codes<float8_e5m2>(DType::float8_e5m2); }

TEST(Float8OfTheCpu, AnActivationsValuesAreQuantisedAsIfTheyWereWritten) {
  expect_the_codes_of_an_activations_values(cpu_backend(), host_allocator());
}
TEST(Float8OfPlainLoops, AnActivationsValuesAreQuantisedAsIfTheyWereWritten) {
  expect_the_codes_of_an_activations_values(plain_backend(), host_allocator());
}

// All codes, with a scale that leaves none of them too small.
template <class F>
void expect_the_formats_numbers(DType type) {
  Harness harness(cpu_backend());
  const Tensor codes = harness.tensor({256}, type), numbers = harness.tensor({256}, DType::float32),
               scale = harness.tensor({sizeof(Float8Scale)}, DType::uint8);
  for (int code = 0; code < 256; ++code) codes.data<F>()[code].bits = static_cast<std::uint8_t>(code);
  *static_cast<Float8Scale*>(scale.raw()) = {.inverse = 4, .scale = 0.25F};
  run(harness.context(), Float8Expand{.x = codes, .scale = scale, .y = numbers});
  for (int code = 0; code < 256; ++code) {
    const float expected = static_cast<float>(codes.data<F>()[code]) * 4, found = numbers.data<float>()[code];
    EXPECT_TRUE(found == expected || (found != found && expected != expected)) << "code " << code;
  }
}

TEST(Float8OfTheCpu, NumbersAreTheFormats) {
  expect_the_formats_numbers<float8_e4m3>(DType::float8_e4m3);
  expect_the_formats_numbers<float8_e5m2>(DType::float8_e5m2);
}

}  // namespace
}  // namespace comera::test
