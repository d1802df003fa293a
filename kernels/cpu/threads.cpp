#include "kernels/cpu/threads.h"

#include <xmmintrin.h>

#include "kernels/core/check.h"

namespace comera::cpu {

void prepare_threads(int threads) {
  COMERA_CHECK(threads >= 1, "the number of threads must be at least 1, not {}", threads);
  omp_set_num_threads(threads);
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
#pragma omp parallel num_threads(threads)
  _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
}

}  // namespace comera::cpu
