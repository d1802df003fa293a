#include "distributed/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "distributed/communicator.h"
#include "kernels/core/check.h"

namespace comera {

namespace {

// Uses system calls only: see below.
bool is_mpirun(const char* comm_file) {
  const int file = open(comm_file, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 8> name{};
  const ssize_t got = read(file, name.data(), name.size() - 1);
  close(file);
  const std::string_view found(name.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return found.starts_with("mpirun") || found.starts_with("mpiexec") || found.starts_with("orterun") ||
         found.starts_with("prterun");
}

}  // namespace

bool launched_as_process() {
  // Then there is nothing to join, and MPI is not needed.
  constexpr std::array sizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  const auto one = [](const char* name) {
    const char* size = std::getenv(name);
    return size != nullptr && std::string_view(size) == "1";
  };
  if (!has_mpi() && std::ranges::any_of(sizes, one)) return false;
  // Open MPI's mpirun, MPICH's and Intel's, and srun with PMIx or PMI-2.
  constexpr std::array names = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
  if (std::ranges::any_of(names, [](const char* name) { return std::getenv(name) != nullptr; })) return true;
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks != nullptr && std::atoi(tasks) > 1)
    throw UsageError(
        fmt::format("srun has started {} tasks, but does not connect them; give it --mpi=pmix (Open MPI) or "
                    "--mpi=pmi2 (MPICH), or --ntasks=1",
                    tasks));
  return false;
}

bool launched_among_several() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size) > 1;
  return false;
}

void kill_stuck_launcher(int process) {
  if (process != 0) return;
  const pid_t launcher = getppid();
  const std::string comm_file = fmt::format("/proc/{}/comm", launcher);
  if (!is_mpirun(comm_file.c_str()) || fork() != 0) return;
  // Another thread may have held any lock: system calls only.
  setsid();
  closefrom(0);
  timespec left{10, 0};
  while (nanosleep(&left, &left) != 0) {
  }
  if (is_mpirun(comm_file.c_str())) kill(launcher, SIGKILL);
  _exit(0);
}

}  // namespace comera
