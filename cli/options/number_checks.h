#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

namespace comera::cli {

// Integers starting at 0 or 1, read as CLI11 reads them for std::int64_t, but rejecting those that are too
// large: CLI11 silently replaces them by the largest value. Its own checks say "not in range 0.000000 to" and
// 309 digits.
inline CLI::Validator whole_number(bool zero, std::int64_t most) {
  return CLI::Validator(
      [zero, most](const std::string& text) {
        char* end = nullptr;
        errno = 0;
        const std::int64_t value = std::strtoll(text.c_str(), &end, 0);
        const bool good = !text.empty() && end == text.c_str() + text.size() && value >= (zero ? 0 : 1);
        if (!good)
          return text + (zero ? " is not a whole number from 0 on" : " is not a whole number above 0");
        return value <= most && errno != ERANGE ? std::string()
                                                : fmt::format("{} is more than {}", text, most);
      },
      zero ? "NONNEGATIVE" : "POSITIVE");
}
// For counts: far more than there can be of anything counted; some are stored in 32 bits.
inline const CLI::Validator positive_number = whole_number(false, 1000000000);
inline const CLI::Validator number_from_0 = whole_number(true, std::numeric_limits<std::int64_t>::max());
inline const CLI::Validator number_of_threads = whole_number(true, 4096);  // as run.threads

// May have a fraction.
inline CLI::Validator number_above_0(double most) {
  return CLI::Validator(
      [most](const std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || !(value > 0)) return text + " is not a number above 0";
        return value <= most ? std::string() : fmt::format("{} is more than {}", text, most);
      },
      "POSITIVE");
}

// From `least` to `most`, fractions included unless `whole`.
inline CLI::Validator number_between(double least, double most, bool whole = false) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most &&
                          (!whole || value == std::floor(value));
        return good ? std::string()
                    : fmt::format("{} is not a {}number from {:g} to {:g}", text, whole ? "whole " : "",
                                  least, most);
      },
      "NUMBER");
}

// At least 0 and less than 1.
inline const CLI::Validator fraction_below_1(
    [](const std::string& text) {
      double value = 0;
      const bool good = CLI::detail::lexical_cast(text, value) && value >= 0 && value < 1;
      return good ? std::string() : text + " is not a fraction from 0 on and below 1";
    },
    "FRACTION");

}  // namespace comera::cli
