#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace comera {

// 1,485,795
inline std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(digits.begin() + at, ',');
  return digits;
}

constexpr double fp32_bytes = 4;

// "5.94 MB": so many numbers of fp32.
inline std::string megabytes(double numbers) { return fmt::format("{:.2f} MB", numbers * fp32_bytes / 1e6); }
inline std::string megabytes(std::int64_t numbers) { return megabytes(static_cast<double>(numbers)); }

}  // namespace comera
