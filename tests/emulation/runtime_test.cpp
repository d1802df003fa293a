// The emulated CUDA runtime: memory, graphs, its log, and machines that lack something.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/emulation/language.h"
#include "kernels/emulation/runtime.h"

namespace comera::emulation {
namespace {

using testing::ElementsAre;

__global__ void add(int* value, int amount) { *value += amount; }

TEST(EmulatedRuntime, AGraphDoesAgainWhatItCaptured) {
  std::vector<std::string> calls;
  log_calls(&calls);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  int host = 5, value = 0;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(int)), cudaSuccess);
  int* device = static_cast<int*>(memory);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaMemcpyAsync(device, &host, sizeof host, cudaMemcpyHostToDevice, stream);
  launch("add", add, {1}, {1}, 0, stream, device, 2);
  // Nothing may be allocated or waited for meanwhile.
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(*device, -1) << "nothing runs while it is captured";
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);

  const auto launched = [&] {
    cudaGraphLaunch(exec, stream);
    cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream);
    return value;
  };
  EXPECT_EQ(launched(), 7);
  host = 8;
  EXPECT_EQ(launched(), 10);
  EXPECT_THAT(calls, ElementsAre("allocate 4", "begin capture", "end capture", "graph launch",
                                 "copy to host 4", "graph launch", "copy to host 4"));
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaGraphExecDestroy(exec);
  cudaFree(memory);
  cudaStreamDestroy(stream);
  log_calls(nullptr);
}

TEST(EmulatedRuntime, WithoutADriverTheCountStaysAsItWas) {
  const Machine before = machine();
  machine().devices = 0;
  int count = 77;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 77);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorInsufficientDriver);
  machine() = before;
  cudaGetLastError();
}

TEST(EmulatedRuntime, MemoryEnds) {
  const Machine before = machine();
  machine().memory = 1000;
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 600), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 600), cudaErrorMemoryAllocation);
  std::size_t available = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&available, &total), cudaSuccess);
  EXPECT_EQ(available, 400U);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 600), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaFree(&available), cudaErrorInvalidValue);
  machine() = before;
  cudaGetLastError();
}

}  // namespace
}  // namespace comera::emulation
