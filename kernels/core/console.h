#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "kernels/core/check.h"

// The only code that prints: messages on standard error or into a log, and a command's results on standard
// output.
namespace comera {

// ---- Messages. If one cannot be written (the disk is full, the terminal or the reader is gone), it is
// dropped and the work continues.

void write_message(std::FILE* to, std::string_view text) noexcept;

template <class... T>
void log_to(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  write_message(to, fmt::format(format, std::forward<T>(values)...));
}

template <class... T>
void log_info(fmt::format_string<T...> format, T&&... values) {
  write_message(stderr, fmt::format(format, std::forward<T>(values)...));
}

// ---- Results. If one cannot be written, the work continues, and check_output() reports the failure.

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

// Flushes the output, for a waiting reader.
void flush_output() noexcept;
// Flushes; throws OutputLost if any output was lost since begin_output().
void check_output();
void begin_output();

}  // namespace comera
