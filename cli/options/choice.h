#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace comera::cli {

// One of these words. Help, manual pages and completion read the choices from the validator's name.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](const std::string& text) {
        if (std::ranges::find(words, text) != words.end()) return std::string();
        return fmt::format("'{}' is not a choice; give {}", text, fmt::join(words, ", "));
      },
      fmt::format("{{{}}}", fmt::join(words, ",")));
}

}  // namespace comera::cli
