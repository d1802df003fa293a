#include "cli/progress.h"

#include <unistd.h>

#include <cstdlib>

#include "kernels/core/console.h"

namespace comera::cli {

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {
  next_ = start_ + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
}

ProgressLine::~ProgressLine() {
  if (open_) say("\n");
}

void ProgressLine::update(std::int64_t documents, std::int64_t bytes) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double megabytes = static_cast<double>(bytes) * 1e-6;
  say("{}{}: {} documents, {:.1f} MB, {:.1f} MB/s{}", terminal_ ? "\r\033[K" : "", what_, grouped(documents),
      megabytes, megabytes / seconds, terminal_ ? "" : "\n");
  open_ = terminal_;
}

std::string grouped(std::int64_t value) {
  if (-1000 < value && value < 1000) return fmt::format("{}", value);
  return fmt::format("{},{:03}", grouped(value / 1000), std::abs(value % 1000));
}

}  // namespace comera::cli
