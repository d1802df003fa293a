#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace comera::cli {

// CLI11's errors in the words of this program: which argument, what is wrong, what to do.
std::string sentence_of(const CLI::App& program, const CLI::ParseError& error);
// The first unexpected word. (CLI11 lists all such words backwards.)
std::string unexpected(const CLI::App& program);
// On one line; CLI11's messages may have several.
std::string one_line(std::string text);

}  // namespace comera::cli
