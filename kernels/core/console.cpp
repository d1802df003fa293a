#include "kernels/core/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/core/terminal.h"

namespace comera {

namespace {

int lost = 0;  // errno of the first failure

void note_failure(int reason) noexcept {
  if (lost == 0) lost = reason != 0 ? reason : EIO;
}

}  // namespace

void write_message(std::FILE* to, std::string_view text) noexcept { print_text(to, text); }

void write_output(std::string_view text) noexcept {
  if (const int reason = print_text(stdout, text); reason != 0) note_failure(reason);
}

OutputLost::OutputLost(int reason)
    : Error(fmt::format("standard output could not be written: {}; what was to be printed is incomplete, but "
                        "the files that the command wrote are whole",
                        std::strerror(reason))),
      reason_(reason) {}

void flush_output() noexcept {
  errno = 0;
  if (std::fflush(stdout) != 0) note_failure(errno);
}

void check_output() {
  flush_output();
  // A network file system may report an error only when the file is closed.
  const int copy = dup(STDOUT_FILENO);
  if (copy >= 0 && close(copy) != 0) note_failure(errno);
  if (lost != 0) throw OutputLost(lost);
}

void begin_output() {
  std::clearerr(stdout);
  lost = 0;
}

}  // namespace comera
