#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace comera::cli {

// Progress of work that has no known end, on stderr: one line that is rewritten when it is a terminal, else a
// plain line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Prints "WHAT: 1,234 documents, 56.7 MB, 8.9 MB/s" if it is time to.
  void update(std::int64_t documents, std::int64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool terminal_;
  bool open_ = false;  // a line without its end is on the terminal
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

// "12,345,678".
std::string grouped(std::int64_t value);

}  // namespace comera::cli
