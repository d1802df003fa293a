#include "kernels/backends/backends.h"

#include <omp.h>

#include "kernels/core/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/threads.h"

namespace comera {

const Backend& backend_of(DeviceKind kind) {
  COMERA_CHECK(kind == DeviceKind::cpu, "this build has no backend for that device");
  return cpu_backend();
}

void prepare_threads(int threads) { cpu::prepare_threads(threads > 0 ? threads : omp_get_num_procs()); }

int thread_count() { return omp_get_max_threads(); }

const char* instruction_set() { return cpu_instruction_set().data(); }

}  // namespace comera
