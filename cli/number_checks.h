#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace comera::cli {

// CLI11's own say "not in range 0.000000 to" and 309 digits.
inline CLI::Validator checked_number(bool zero) {
  return CLI::Validator(
      [zero](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && (value > 0 || (zero && value == 0));
        return good ? std::string()
                    : text + (zero ? " is not a number from 0 on" : " is not a number above 0");
      },
      zero ? "NONNEGATIVE" : "POSITIVE");
}
inline const CLI::Validator positive_number = checked_number(false);
inline const CLI::Validator number_from_0 = checked_number(true);

}  // namespace comera::cli
