#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/program.h"

namespace {

// GCC's OpenMP lets idle threads spin for milliseconds. On a machine that has anything else to do the others
// then wait for their turn: small steps were measured ten times slower. It reads its settings before main(),
// so the program starts itself once more with a short spin, unless the user has chosen.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none) execv(program.c_str(), argv);  // returns only if it failed; then go on as it is
}

}  // namespace

int main(int argc, char** argv) {
  limit_spinning(argv);
  return comera::cli::run_program(argc, argv);
}
