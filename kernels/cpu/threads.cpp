#include "kernels/cpu/threads.h"

#include <xmmintrin.h>

#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/core/check.h"

namespace comera::cpu {

namespace {

// If the system provides fewer threads, libgomp ends the program with its own message. Therefore this many
// threads are first started here, all at once.
void require_threads(int threads) {
  std::latch all(1);  // outlives the threads that wait for it
  std::vector<std::jthread> started;
  started.reserve(threads);
  try {
    while (std::ssize(started) + 1 < threads) started.emplace_back([&all] { all.wait(); });
    all.count_down();
  } catch (const std::system_error& error) {
    all.count_down();
    throw Error(fmt::format("{} threads are more than the system gives, which is {} here: {}; choose fewer",
                            threads, std::ssize(started) + 1, error.code().message()));
  } catch (...) {
    all.count_down();
    throw;
  }
}

}  // namespace

void prepare_threads(int threads) {
  COMERA_CHECK(threads >= 1, "the number of threads must be at least 1, not {}", threads);
  require_threads(threads);
  omp_set_num_threads(threads);
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
#pragma omp parallel num_threads(threads)
  _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
}

}  // namespace comera::cpu
