#include "cli/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace comera::cli {

namespace {

using Handler = void (*)(int);
Handler callers_broken_pipe = SIG_IGN;

// open() takes the lowest free descriptor, which is the closed one, because those below it are open by then.
void open_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // Without /dev, something unwritable still occupies the descriptor.
    if (open("/dev/null", O_RDWR) < 0 && open("/", O_RDONLY | O_DIRECTORY) < 0) _exit(1);
  }
}

// GCC's OpenMP lets idle threads spin for milliseconds. On a busy machine the others then wait for their
// turn: small steps were measured to be ten times slower. It reads its settings before main(), so the program
// restarts itself with a short spin, unless the user has chosen one.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none) execv(program.c_str(), argv);  // returns only on failure; then continues unchanged
}

// Each shard of a set stays open: allows as many files as the system does, instead of the usual 1,024 of a
// shell.
void allow_open_files() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// After the restart, because ignored signals would stay ignored across it.
void ignore_signals_of_writes() {
  callers_broken_pipe = std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

void prepare_process(char** argv) {
  open_standard_descriptors();
  limit_spinning(argv);
  allow_open_files();
  ignore_signals_of_writes();
}

void end_by_broken_pipe() {
  std::signal(SIGPIPE, callers_broken_pipe);
  std::raise(SIGPIPE);
}

}  // namespace comera::cli
