#pragma once

#include <cmath>
#include <span>

#include "tests/support/largest.h"

namespace comera::test {

inline double largest(std::span<const double> values) {
  double result = 0;
  for (double value : values) result = larger_or_nan(result, std::abs(value));
  return result;
}

// Largest difference over the largest expected entry, or over `otherwise` if all of them are 0.
inline double error_of(std::span<const double> got, std::span<const double> expected, double otherwise) {
  double difference = 0;
  if (got.size() != expected.size()) return INFINITY;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    difference = larger_or_nan(difference, std::abs(got[i] - expected[i]));
  }
  const double scale = largest(expected);
  return difference / (scale == 0 ? otherwise : scale);
}

}  // namespace comera::test
