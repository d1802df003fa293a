// Memory, copies and recordings of the CUDA backend on the emulated runtime.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/core/graph.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class EmulatedMemory : public testing::Test {
 protected:
  EmulatedMemory() { emulation::machine().late = true; }
  ~EmulatedMemory() override {
    emulation::machine() = before_;
    emulation::log_calls(nullptr);
  }
  emulation::Machine before_ = emulation::machine();
};

TEST_F(EmulatedMemory, IsZeroedCountedAndEnds) {
  const auto allocator = cuda_emulated::make_allocator(0);
  emulation::machine().memory = std::size_t{1} << 20;
  const Buffer parameters(*allocator, 1000, MemoryKind::parameters);
  std::vector<std::byte> host(1000, std::byte{7});
  allocator->download(host.data(), parameters.data(), host.size(), allocator->stream());
  allocator->synchronize(allocator->stream());
  EXPECT_THAT(host, testing::Each(std::byte{0}));
  EXPECT_EQ(allocator->use(MemoryKind::parameters).current, 1000U);
  EXPECT_THAT([&] { Buffer(*allocator, 2 << 20, MemoryKind::activations); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("2.0 MiB for activations"),
                                                  HasSubstr("beside parameters 0.0 MiB"),
                                                  HasSubstr("tokens_per_micro_batch"))));
}

TEST_F(EmulatedMemory, WithoutAGpuSaysSo) {
  emulation::machine().devices = 0;
  EXPECT_EQ(cuda_emulated::device_count(), 0);
  EXPECT_THAT(cuda_emulated::why_no_device(), HasSubstr("no driver for NVIDIA's GPUs was found"));
  EXPECT_THAT([] { cuda_emulated::make_allocator(0); },
              ThrowsMessage<Error>(HasSubstr("no driver for NVIDIA's GPUs was found")));
  emulation::machine().devices = 2;
  EXPECT_EQ(cuda_emulated::why_no_device(), "");
  EXPECT_THAT([] { cuda_emulated::make_allocator(2); },
              ThrowsMessage<Error>(HasSubstr("this machine has 2")));
}

TEST_F(EmulatedMemory, ADriverThatIsTooOldSaysWhatIsNeeded) {
  emulation::machine().driver = 12040;
  EXPECT_EQ(cuda_emulated::device_count(), 0);
  EXPECT_TRUE(cuda_emulated::misses_device());
  EXPECT_EQ(
      cuda_emulated::why_no_device(),
      "the driver of this machine's GPU supports CUDA 12.4 at most, and this program needs 13.0; install "
      "driver r580 or newer (cudaErrorInsufficientDriver)");
  emulation::machine().driver = 13010;
  EXPECT_FALSE(cuda_emulated::misses_device());
}

TEST_F(EmulatedMemory, AGpuBeforeAmpereIsUnfit) {
  emulation::machine().capability = 75;
  EXPECT_EQ(cuda_emulated::why_unfit(0),
            "cuda:0 has compute capability 7.5, and this program needs 8.0 (Ampere) or newer");
  for (const int capability : {80, 86, 89, 90, 120}) {
    emulation::machine().capability = capability;
    EXPECT_EQ(cuda_emulated::why_unfit(0), "") << capability;
  }
}

// Capturing changes nothing; each launch adds once; a steady launch is one call.
TEST_F(EmulatedMemory, AGraphIsCapturedOnceAndReplayed) {
  const auto allocator = cuda_emulated::make_allocator(0);
  const Stream stream = allocator->stream();
  const Buffer x(*allocator, 64, MemoryKind::workspace), y(*allocator, 64, MemoryKind::workspace);
  const std::vector<float> two(16, 2.F);
  allocator->upload(x.data(), two.data(), 64, stream);
  Arena arena(*allocator, {});
  const Context context{cuda_emulated::backend(), arena, stream};
  int recorded = 0;
  Graph graph(*allocator, stream, [&] {
    ++recorded;
    run(context, Add{.x = x.tensor({16}, DType::float32), .y = y.tensor({16}, DType::float32)});
  });
  std::vector<float> got(16);
  graph.launch();  // loads what it needs
  graph.launch();
  std::vector<std::string> calls;
  emulation::log_calls(&calls);
  graph.launch();
  graph.launch();
  emulation::log_calls(nullptr);
  allocator->download(got.data(), y.data(), 64, stream);
  EXPECT_EQ(recorded, 2);
  EXPECT_THAT(got, testing::Each(8.F));
  EXPECT_THAT(calls, ElementsAre("graph launch", "graph launch"));

  // Allocating while it is captured is refused, and the stream is as good as before.
  Graph wrong(*allocator, stream, [&] { Buffer(*allocator, 8, MemoryKind::workspace); });
  EXPECT_THAT([&] { wrong.launch(); }, ThrowsMessage<Error>(HasSubstr("inside a step")));
  graph.launch();
  allocator->download(got.data(), y.data(), 64, stream);
  EXPECT_THAT(got, testing::Each(10.F));
}

// A step that cannot be captured is told, and done all the same.
TEST_F(EmulatedMemory, WithoutACaptureTheWorkGoesOn) {
  const auto allocator = cuda_emulated::make_allocator(0);
  const Stream stream = allocator->stream();
  const Buffer x(*allocator, 64, MemoryKind::workspace), y(*allocator, 64, MemoryKind::workspace);
  const std::vector<float> two(16, 2.F);
  allocator->upload(x.data(), two.data(), 64, stream);
  Arena arena(*allocator, {});
  const Context context{cuda_emulated::backend(), arena, stream};
  Graph graph(*allocator, stream, [&] {
    run(context, Add{.x = x.tensor({16}, DType::float32), .y = y.tensor({16}, DType::float32)});
  });
  emulation::machine().refuses_captures = true;
  testing::internal::CaptureStderr();
  for (int launch = 0; launch < 4; ++launch) graph.launch();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::MatchesRegex("note: the step could not be recorded as a graph, and continues without one: "
                            ".*cudaStreamBeginCapture.* failed: cudaErrorStreamCaptureUnsupported.*\n"));
  std::vector<float> got(16);
  allocator->download(got.data(), y.data(), 64, stream);
  EXPECT_THAT(got, testing::Each(8.F));
}

TEST_F(EmulatedMemory, AProfileHasTheTimesOfTheDevice) {
  const auto allocator = cuda_emulated::make_allocator(0);
  const Stream stream = allocator->stream();
  const Buffer x(*allocator, 64, MemoryKind::workspace), y(*allocator, 64, MemoryKind::workspace);
  Arena arena(*allocator, {});
  const Context context{cuda_emulated::backend(), arena, stream};
  const auto clock = allocator->profile_clock(stream);
  profile_reset();
  Profiling profiling(clock.get());
  for (int i = 0; i < 3; ++i)
    run(context, Add{.x = x.tensor({16}, DType::float32), .y = y.tensor({16}, DType::float32)});
  profiling.finish();
  const std::vector<ProfileEntry> entries = profile_entries();
  profile_reset();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].calls, 3);
  EXPECT_GT(entries[0].seconds, 0);
}

TEST_F(EmulatedMemory, AFailedCallNamesItselfAndItsPlace) {
  const auto allocator = cuda_emulated::make_allocator(0);
  emulation::machine().devices = 0;
  EXPECT_THAT(
      [&] { Buffer(*allocator, 8, MemoryKind::workspace); },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("cuda_memory.cu:"), HasSubstr("cudaMalloc failed"),
                                          HasSubstr("cudaErrorInsufficientDriver"))));
  emulation::machine().devices = 1;
}

}  // namespace
}  // namespace comera::test
