// Devices and memory.

#include "kernels/emulation/runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/emulation/streams.h"

namespace comera::emulation {

namespace {

using Blocks = std::map<void*, std::size_t>;
Blocks &allocated = *new Blocks,
       &pinned = *new Blocks;  // never freed: destructors of other objects may run later
std::size_t in_use = 0;

cudaError_t result(cudaError_t error) { return result_of(error); }

cudaError_t device_ready() {
  const bool ready = machine().devices > 0 && machine().driver >= CUDART_VERSION;
  return result(ready ? cudaSuccess : cudaErrorInsufficientDriver);
}

}  // namespace

Machine& machine() {
  static Machine emulated;
  return emulated;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetDeviceCount(int* count) {
  // As without a driver: the count is unchanged.
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  *count = machine().devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().devices > 0 ? machine().driver : 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  return result(device >= 0 && device < machine().devices ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  std::snprintf(address, static_cast<std::size_t>(bytes), "0000:%02X:00.0", static_cast<unsigned>(device));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = machine().multiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = machine().capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = machine().capability % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(most_shared_bytes);
      break;
  }
  return cudaSuccess;
}

namespace {

// Exactly the requested bytes, with the alignment of the real runtime.
cudaError_t take_memory(void** memory, std::size_t bytes) {
  if (posix_memalign(memory, 256, std::max<std::size_t>(bytes, 1)) != 0)
    return result(cudaErrorMemoryAllocation);
  if (machine().computes) std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  log_call(fmt::format("allocate {}", bytes));
  if (bytes > machine().memory - std::min(in_use, machine().memory)) return result(cudaErrorMemoryAllocation);
  if (const cudaError_t error = take_memory(memory, bytes); error != cudaSuccess) return error;
  allocated[*memory] = bytes;
  in_use += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  const auto found = allocated.find(memory);
  if (found == allocated.end()) return result(cudaErrorInvalidValue);
  drain_all();  // waits for its last use
  in_use -= found->second;
  allocated.erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  if (const cudaError_t error = take_memory(memory, bytes); error != cudaSuccess) return error;
  pinned[*memory] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  drain_all();
  pinned.erase(memory);
  std::free(memory);
  return cudaSuccess;
}

bool is_pinned(const void* address) {
  const auto behind = pinned.upper_bound(const_cast<void*>(address));
  if (behind == pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(behind);
  return address < static_cast<const std::byte*>(begin) + std::max<std::size_t>(bytes, 1);
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  *total = machine().memory;
  *available = *total - std::min(in_use, *total);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  put(fmt::format("fill {}", bytes), stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  put(fmt::format("fill {} x {}", height, width), stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memset(static_cast<std::byte*>(memory) + row * pitch, value, width);
  });
  return cudaSuccess;
}

}  // namespace comera::emulation
