#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "kernels/core/check.h"

// The one place that prints: messages for people on standard error or into a log, and on standard output what
// a command was asked for.
namespace comera {

// ---- Messages. One that cannot be written (the disk is full, the terminal or the reader is gone) is
// dropped: the work is worth more than what is said about it.

void write_message(std::FILE* to, std::string_view text) noexcept;

template <class... T>
void log_to(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  write_message(to, fmt::format(format, std::forward<T>(values)...));
}

template <class... T>
void log_info(fmt::format_string<T...> format, T&&... values) {
  write_message(stderr, fmt::format(format, std::forward<T>(values)...));
}

// ---- Results. The work goes on after one that cannot be written, and check_output() reports it.

void write_output(std::string_view text) noexcept;

template <class... T>
void print_out(fmt::format_string<T...> format, T&&... values) {
  write_output(fmt::format(format, std::forward<T>(values)...));
}

// Standard output could not be written.
class OutputLost : public Error {
 public:
  explicit OutputLost(int reason);
  int reason() const { return reason_; }  // errno

 private:
  int reason_;
};

// Shows what was put, where somebody waits for it.
void flush_output() noexcept;
// Writes what is buffered; throws OutputLost if anything of the output was lost since begin_output().
void check_output();
void begin_output();

}  // namespace comera
