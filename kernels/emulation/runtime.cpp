#include "kernels/emulation/runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

namespace comera::emulation {

struct GraphState {
  std::vector<std::function<void()>> work;
  int owners = 1;  // the graph and what was instantiated from it
};
struct StreamState {
  GraphState* capturing = nullptr;
};
struct EventState {
  bool recorded = false;
};

namespace {

StreamState default_stream;
std::map<void*, std::size_t> allocated;
std::size_t in_use = 0;
int capturing_streams = 0;
cudaError_t last_error = cudaSuccess;
std::vector<std::string>* call_log = nullptr;

StreamState& state_of(cudaStream_t stream) { return stream == nullptr ? default_stream : *stream; }

void log(std::string call) {
  if (call_log != nullptr) call_log->push_back(std::move(call));
}

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// What would invalidate a capture in progress.
cudaError_t not_while_capturing() {
  return result(capturing_streams > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

cudaError_t device_ready() {
  return result(machine().devices > 0 ? cudaSuccess : cudaErrorInsufficientDriver);
}

void release(GraphState* graph) {
  if (--graph->owners == 0) delete graph;
}

}  // namespace

Machine& machine() {
  static Machine emulated;
  return emulated;
}

void log_calls(std::vector<std::string>* to) { call_log = to; }

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
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  // As without a driver: the count is left as it was.
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  *count = machine().devices;
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
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(most_shared_bytes);
      break;
  }
  return cudaSuccess;
}

namespace {

// Exactly as many bytes, at the alignment of the real one.
cudaError_t take_memory(void** memory, std::size_t bytes) {
  if (posix_memalign(memory, 256, std::max<std::size_t>(bytes, 1)) != 0)
    return result(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  log(fmt::format("allocate {}", bytes));
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
  in_use -= found->second;
  allocated.erase(found);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  return take_memory(memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  *total = machine().memory;
  *available = *total - std::min(in_use, *total);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const char* const names[] = {"", "copy to device", "copy to host", "copy within the device"};
  put(fmt::format("{} {}", names[kind], bytes), stream, [=] { std::memmove(to, from, bytes); });
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = device_ready(); error != cudaSuccess) return error;
  *stream = new StreamState;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  log("synchronize");
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EventState;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = not_while_capturing(); error != cudaSuccess) return error;
  if (event->recorded) log("synchronize");  // nothing to wait for otherwise
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = 0;
  return result(from->recorded && to->recorded ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  StreamState& state = state_of(stream);
  if (stream == nullptr || state.capturing != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  state.capturing = new GraphState;
  ++capturing_streams;
  log("begin capture");
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  StreamState& state = state_of(stream);
  if (state.capturing == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  *graph = std::exchange(state.capturing, nullptr);
  --capturing_streams;
  log("end capture");
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  ++graph->owners;
  *exec = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  put("graph launch", stream, [exec] {
    for (const auto& work : exec->work) work();
  });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  release(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  release(exec);
  return cudaSuccess;
}

void put(std::string name, cudaStream_t stream, std::function<void()> work) {
  StreamState& state = state_of(stream);
  if (state.capturing != nullptr) {
    state.capturing->work.push_back(std::move(work));
    return;
  }
  log(std::move(name));
  work();
}

}  // namespace comera::emulation
