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
  host = 8;  // which a graph reads when it is launched
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

class EmulatedStreams : public testing::Test {
 protected:
  EmulatedStreams() {
    machine().late = true;
    cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  ~EmulatedStreams() override {
    cudaEventDestroy(event_);
    cudaStreamDestroy(first_);
    cudaStreamDestroy(second_);
    machine() = before_;
    cudaGetLastError();
  }
  // In how many of a hundred orders the work of the second stream finds that of the first done.
  int found(bool waits) {
    int count = 0;
    for (int seed = 1; seed <= 100; ++seed) {
      machine().seed = static_cast<std::uint64_t>(seed);
      int value = 0, seen = 0;
      put("first", first_, [&] { value = 1; });
      cudaEventRecord(event_, first_);
      if (waits) cudaStreamWaitEvent(second_, event_);
      put("second", second_, [&] { seen = value; });
      EXPECT_EQ(value, 0) << "nothing is done before somebody waits";
      cudaStreamSynchronize(second_);
      count += seen;
      cudaStreamSynchronize(first_);
    }
    return count;
  }
  Machine before_ = machine();
  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(EmulatedStreams, RunLateAndInAnyOrderThatEventsAllow) {
  EXPECT_EQ(found(true), 100);
  EXPECT_GT(found(false), 10);
  EXPECT_LT(found(false), 90);
}

TEST_F(EmulatedStreams, PinnedMemoryIsReadWhenItsTurnComes) {
  void *memory = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int pageable = 5;
  int* const host = static_cast<int*>(pinned);
  *host = 5;
  cudaMemcpyAsync(memory, &pageable, sizeof(int), cudaMemcpyHostToDevice, first_);
  pageable = 6;
  cudaStreamSynchronize(first_);
  EXPECT_EQ(*static_cast<int*>(memory), 5);
  cudaMemcpyAsync(memory, host, sizeof(int), cudaMemcpyHostToDevice, first_);
  *host = 6;  // too early
  cudaStreamSynchronize(first_);
  EXPECT_EQ(*static_cast<int*>(memory), 6);
  cudaFree(memory);
  cudaFreeHost(pinned);
}

TEST_F(EmulatedStreams, ACaptureHasTheRulesOfTheRealOne) {
  cudaGraph_t graph = nullptr;
  const auto ends_with = [&](cudaError_t error) {
    EXPECT_EQ(cudaStreamEndCapture(first_, &graph), error);
    EXPECT_EQ(graph == nullptr, error != cudaSuccess);
    if (graph != nullptr) cudaGraphDestroy(graph);
  };
  const auto begin = [&] {
    ASSERT_EQ(cudaStreamBeginCapture(first_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  };
  // A fork that does not come back.
  begin();
  cudaEventRecord(event_, first_);
  ASSERT_EQ(cudaStreamWaitEvent(second_, event_), cudaSuccess);
  put("aside", second_, [] {});
  ends_with(cudaErrorStreamCaptureUnjoined);
  // One that joins, but continues after that.
  begin();
  cudaEventRecord(event_, first_);
  cudaStreamWaitEvent(second_, event_);
  cudaEventRecord(event_, second_);
  put("aside", second_, [] {});
  cudaStreamWaitEvent(first_, event_);
  ends_with(cudaErrorStreamCaptureUnjoined);
  // Work from outside.
  cudaEventRecord(event_, second_);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(first_, event_), cudaErrorStreamCaptureIsolation);
  ends_with(cudaErrorStreamCaptureInvalidated);
  // As it should be; its streams run in any order too.
  int value = 0, seen = 0;
  begin();
  put("first", first_, [&] { value = 1; });
  cudaEventRecord(event_, first_);
  cudaStreamWaitEvent(second_, event_);
  put("aside", second_, [&] { value = 10 * value + 2; });
  cudaEventRecord(event_, second_);
  cudaStreamWaitEvent(first_, event_);
  put("last", first_, [&] { seen = value; });
  ASSERT_EQ(cudaStreamEndCapture(first_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    machine().seed = seed;
    seen = 0;
    cudaGraphLaunch(exec, first_);
    cudaStreamSynchronize(first_);
    EXPECT_EQ(seen, 12);
  }
  cudaGraphExecDestroy(exec);
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
