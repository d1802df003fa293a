#include "kernels/backends/backends.h"

#include <omp.h>

#include <map>
#include <mutex>

#include "kernels/core/machine.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"

namespace comera {

const Backend& backend_of(DeviceKind kind, OperandKind operands) {
  return kind == DeviceKind::cpu ? cpu_backend() : cuda::backend(operands == OperandKind::tf32);
}

Allocator& allocator_of(Device device) {
  if (device.kind == DeviceKind::cpu) return host_allocator();
  static std::mutex mutex;
  // Never freed: memory released at program exit still needs them.
  static auto& made = *new std::map<int, std::unique_ptr<Allocator>>;
  const std::scoped_lock lock(mutex);
  auto& allocator = made[device.index];
  if (allocator == nullptr) allocator = cuda::make_allocator(device.index);
  return *allocator;
}

int cuda_device_count() { return cuda::device_count(); }

std::string cuda_device_address(int device) { return cuda::device_address(device); }

bool cuda_multiplies_float8(int device) { return cuda::multiplies_float8(device); }

std::string why_no_cuda_device() { return cuda::why_no_device(); }

bool misses_cuda_device() { return cuda::misses_device(); }

std::string why_cuda_device_is_unfit(int device) { return cuda::why_unfit(device); }

void prepare_threads(int threads) { cpu::prepare_threads(threads > 0 ? threads : own_cpus()); }

int thread_count() { return omp_get_max_threads(); }

const char* instruction_set() { return cpu_instruction_set().data(); }

const char* instruction_set(DType compute) {
  return compute == DType::bfloat16 ? instruction_set() : cpu_wide_instruction_set().data();
}

}  // namespace comera
