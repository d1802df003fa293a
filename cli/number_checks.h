#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

namespace comera::cli {

// CLI11's own say "not in range 0.000000 to" and 309 digits.
inline CLI::Validator checked_number(bool zero, double most = std::numeric_limits<double>::max()) {
  return CLI::Validator(
      [zero, most](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && (value > 0 || (zero && value == 0));
        if (!good) return text + (zero ? " is not a number from 0 on" : " is not a number above 0");
        return value <= most ? std::string() : fmt::format("{} is more than {}", text, most);
      },
      zero ? "NONNEGATIVE" : "POSITIVE");
}
// Of counts: more of anything can neither be made nor, as a whole number, be read.
inline const CLI::Validator positive_number = checked_number(false, 1e9);
inline const CLI::Validator number_from_0 = checked_number(true, 1e18);
inline const CLI::Validator number_of_threads = checked_number(true, 4096);  // as run.threads

}  // namespace comera::cli
