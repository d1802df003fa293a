#pragma once

#include <array>

// GELU is x Φ(x) = max(x, 0) - G(|x|), where G(a) = a Φ(-a) is below 6e-9 for a >= 6 and is treated as 0. G
// is approximated by polynomials whose coefficients a vector of 16 lanes selects by a permutation. Six terms
// give G to 4e-8; seven also give its derivative G'(a) = Φ(-a) - a φ(a), the slope of GELU at -a, to 2e-7.
namespace comera::gelu_table {

inline constexpr int pieces = 16;
inline constexpr double end = 6;
inline constexpr double width = end / (pieces - 1);  // piece n is centred at n widths

// Coefficient i of each piece's polynomial in f = a / width - n, |f| <= 1/2.
template <int terms>
struct alignas(64) Table {
  std::array<std::array<float, pieces>, terms> coefficients{};
};

namespace detail {
constexpr double exp(double x) {  // -24 <= x <= 0
  double term = 1, total = 1;
  for (int i = 1; i < 40; ++i) total += term *= x / 16 / i;
  for (int i = 0; i < 4; ++i) total *= total;
  return total;
}

constexpr double g(double a) {  // Φ(-a) = 1/2 - φ(a) (a + a³ / 3 + a⁵ / 15 + …)
  double term = a, total = a;
  for (int i = 3; i < 200; i += 2) total += term *= a * a / i;
  return a * (0.5 - 0.39894228040143267794 * exp(a * a * -0.5) * total);
}

constexpr double cos(double x) {
  double term = 1, total = 1;
  for (int i = 1; i < 40; i += 2) total += term *= -x * x / i / (i + 1);
  return total;
}

// The polynomial through G at the Chebyshev points of a piece, by divided differences. G is continued
// analytically beyond both ends.
template <int terms>
constexpr std::array<double, terms> fitted(int piece) {
  std::array<double, terms> points{};
  for (int i = 0; i < terms; ++i) points[i] = cos(3.14159265358979323846 * (2 * i + 1) / (2 * terms)) / 2;
  std::array<double, terms> differences{}, polynomial{};
  for (int i = 0; i < terms; ++i) differences[i] = g((piece + points[i]) * width);
  for (int order = 1; order < terms; ++order) {
    for (int i = terms - 1; i >= order; --i)
      differences[i] = (differences[i] - differences[i - 1]) / (points[i] - points[i - order]);
  }
  for (int i = terms - 1; i >= 0; --i) {  // times (f - points[i]), and the next difference
    for (int j = terms - 1; j > 0; --j) polynomial[j] = polynomial[j - 1] - points[i] * polynomial[j];
    polynomial[0] = differences[i] - points[i] * polynomial[0];
  }
  return polynomial;
}

template <int terms>
constexpr Table<terms> made() {
  Table<terms> table;
  for (int piece = 0; piece < pieces; ++piece) {
    const std::array<double, terms> polynomial = fitted<terms>(piece);
    for (int i = 0; i < terms; ++i) table.coefficients[i][piece] = static_cast<float>(polynomial[i]);
  }
  table.coefficients[0][0] = table.coefficients[0][pieces - 1] = 0;  // GELU(0) is 0
  return table;
}
}  // namespace detail

template <int terms>
inline constexpr Table<terms> table = detail::made<terms>();

}  // namespace comera::gelu_table
