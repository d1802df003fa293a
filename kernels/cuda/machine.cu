#include "kernels/cuda/machine.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cuda_memory.h"

namespace comera::COMERA_CUDA {

namespace {

// Floating-point operations of a multiprocessor per cycle, two for each multiply-add, from this compute
// capability on. TF32 and bfloat16 use tensor cores with float32 sums.
struct Rates {
  int capability;
  double float32, tf32, bfloat16;
};
constexpr Rates rates[] = {{80, 128, 1024, 2048},
                           {86, 256, 256, 512},
                           {90, 256, 2048, 4096},
                           {100, 256, 4096, 8192},
                           {120, 256, 256, 512}};

Rates rates_of(int capability) {
  Rates found = rates[0];
  for (const Rates& some : rates)
    if (some.capability <= capability) found = some;
  return found;
}

// A sixty-fourth of the memory, rounded down to a power of two, so that cards of one kind, whose memory
// differs by a little, nearly always take the same. More than 512 MiB saves nothing.
std::int64_t part_bytes_of(std::int64_t memory) {
  constexpr std::uint64_t least = 16 << 20, most = 512 << 20, share = 64;
  return static_cast<std::int64_t>(
      std::bit_floor(std::clamp(static_cast<std::uint64_t>(memory) / share, least, most)));
}

}  // namespace

#if defined(COMERA_EMULATED)
GpuProperties first_gpu() { return {}; }
#else
GpuProperties first_gpu() {
  GpuProperties gpu;
  if (device_count() == 0) return gpu;
  const auto read = [](cudaDeviceAttr attribute, auto otherwise) {
    int value = 0;  // unchanged if the driver does not know the attribute
    const bool known = cudaDeviceGetAttribute(&value, attribute, 0) == cudaSuccess && value > 0;
    if (!known) cudaGetLastError();
    return known ? value : otherwise;
  };
  constexpr double kilohertz = 1e3;
  gpu.capability = 10 * read(cudaDevAttrComputeCapabilityMajor, gpu.capability / 10);
  gpu.capability += read(cudaDevAttrComputeCapabilityMinor, 0);
  gpu.multiprocessors = read(cudaDevAttrMultiProcessorCount, gpu.multiprocessors);
  gpu.clock = kilohertz * read(cudaDevAttrClockRate, gpu.clock / kilohertz);
  gpu.memory_clock = kilohertz * read(cudaDevAttrMemoryClockRate, gpu.memory_clock / kilohertz);
  gpu.memory_bus = read(cudaDevAttrGlobalMemoryBusWidth, gpu.memory_bus);
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess)
    gpu.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  else
    cudaGetLastError();
  return gpu;
}
#endif

MachineModel machine_of(const GpuProperties& gpu, bool tf32) {
  const Rates in_a_cycle = rates_of(gpu.capability);
  const double cycles = gpu.multiprocessors * gpu.clock;
  // Between two kernels of a recording. A single launch takes longer, but recording a step must not change
  // its results.
  constexpr double seconds_between_kernels = 2e-6;
  return {.flops_per_second = cycles * (tf32 ? in_a_cycle.tf32 : in_a_cycle.float32),
          .narrow_flops_per_second = cycles * in_a_cycle.bfloat16,
          .bytes_per_second = 2 * gpu.memory_clock * gpu.memory_bus / 8,
          .seconds_per_call = seconds_between_kernels,
          .part_bytes = part_bytes_of(gpu.memory),
          .cached_bytes = part_bytes_of(gpu.memory),
          .head_sizes = {32, 64, 128}};
}

}  // namespace comera::COMERA_CUDA
