#include "cli/process.h"

#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

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

// OpenMP has bound this thread to the first of its places by now if OMP_PROC_BIND says so. A restarted
// program would take that one for all that it may use.
void return_to_its_places() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cpus(omp_get_place_num_procs(place));
    omp_get_place_proc_ids(place, cpus.data());
    for (const int cpu : cpus) CPU_SET(cpu, &all);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
}

// GCC's OpenMP lets idle threads spin for milliseconds. On a busy machine the others then wait for their
// turn: small steps were measured to be ten times slower. It reads its settings before main(), so the program
// restarts itself with a short spin, unless the user has chosen one.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  if (none) return;
  cpu_set_t bound;
  const bool known = sched_getaffinity(0, sizeof bound, &bound) == 0;
  return_to_its_places();
  execv(program.c_str(), argv);  // returns only on failure; then continues unchanged
  if (known) sched_setaffinity(0, sizeof bound, &bound);
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
