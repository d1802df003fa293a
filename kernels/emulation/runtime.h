#pragma once

// The part of the CUDA runtime that kernels/cuda uses, on the host. Work on a stream runs when something
// waits for it, with streams interleaved in a random order that events allow; a captured graph runs again at
// each of its launches, in the same way.

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/emulation/block.h"

namespace comera::emulation {

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureWrongThread = 908,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

// ---- Devices

enum cudaDeviceAttr : int {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
#define CUDART_VERSION 13000
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device);

// ---- Memory. Blocks have exactly the requested size and come from malloc(), so that AddressSanitizer
// detects accesses beyond them. Never zeroed: filled with 0xFF, or not at all if nothing is computed.

enum cudaMemcpyKind : int {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
struct StreamState;
using cudaStream_t = StreamState*;

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream);

// ---- Streams and events

inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0;
struct EventState;
using cudaEvent_t = EventState*;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
// Lets some time pass: each call runs one piece of work of some stream.
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

// ---- Graphs

enum cudaStreamCaptureMode : int {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
struct GraphState;
using cudaGraph_t = GraphState*;
using cudaGraphExec_t = GraphState*;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

// ---- Launches

// Work on a stream that is not a kernel of this project, such as a product of the matrix library; recorded
// while the stream captures.
void put(std::string name, cudaStream_t stream, std::function<void()> work);
// Work that other processes have a part in: it can run as soon as ready() is true.
void put_when(std::function<bool()> ready, cudaStream_t stream, std::function<void()> work);

// kernel(arguments...) with copies of the arguments, as in the runtime.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Index3& grid, const Index3& block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  auto body = [kernel, arguments = std::tuple<std::decay_t<Parameters>...>(
                           std::forward<Arguments>(arguments)...)] { std::apply(kernel, arguments); };
  put(fmt::format("launch {}", name), stream, [name, grid, block, shared_bytes, body] {
    run_grid(
        {name, grid, block, shared_bytes},
        [](const void* context) { (*static_cast<const decltype(body)*>(context))(); }, &body);
  });
}

// ---- For tests

// The machine to emulate.
struct Machine {
  int devices = 1;                            // 0: as without a driver
  int driver = CUDART_VERSION;                // the newest CUDA that it supports
  int capability = 90;                        // compute capability, 8.9 as 89
  std::size_t memory = std::size_t{1} << 33;  // bytes
  int multiprocessors = 4;                    // few, so that grid-stride loops iterate
  bool late = false;  // work is deferred until something waits for it; otherwise it runs at once, for tests
                      // of operations
  std::uint64_t seed = 1;         // for the order of deferred streams
  bool computes = true;           // otherwise kernels, products and fills are only counted; copies are made
  bool refuses_captures = false;  // as if something in them were not allowed
  std::chrono::seconds patience{120};  // that a stream has for other processes
};
Machine& machine();
// Whether any stream is capturing: then libraries cannot be initialised.
bool is_capturing();
bool captures(cudaStream_t stream);

// Logs the runtime calls in order: "launch NAME", "graph launch", "copy to device 256", …; the operations
// within a graph launch are not listed again. Null: no log.
void log_calls(std::vector<std::string>* log);

}  // namespace comera::emulation
