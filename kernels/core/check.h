#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace comera {

// An error, in one sentence with a remedy. Ends a command with exit code 1. Messages quote files and
// arguments: control characters are escaped ("\n"), so that a message is always one line and file contents
// cannot send commands to the terminal. Beyond 2,000 bytes the middle is cut out.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// The command line or a recipe is wrong. Ends a command with exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void throw_error(const std::string& message);

}  // namespace comera

// COMERA_CHECK(condition, format, ...): throws comera::Error with the formatted message unless condition
// holds. The message names the operation or the file, what was expected and what was found.
#define COMERA_CHECK(condition, ...)                                   \
  do {                                                                 \
    if (!(condition)) ::comera::throw_error(fmt::format(__VA_ARGS__)); \
  } while (false)
