// Which backends and devices there are: with and without CUDA in the program, with and without a GPU.
#include "kernels/backends/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/core/check.h"
#include "kernels/cuda/cuda_backend.h"

namespace comera::test {

namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr bool built_with_cuda = COMERA_TEST_HAS_CUDA;

TEST(Backends, TheCpuIsAlwaysThere) {
  EXPECT_EQ(backend_of(DeviceKind::cpu).name(), "cpu");
  EXPECT_EQ(&allocator_of({DeviceKind::cpu, 0}), &host_allocator());
}

// The operations that the tests run as host code are those compiled for GPUs.
TEST(Backends, CudaHasTheOperationsThatAreEmulated) {
  if (!built_with_cuda) {
    EXPECT_THAT([] { backend_of(DeviceKind::cuda); },
                ThrowsMessage<Error>(HasSubstr("built without CUDA; build with -DCOMERA_CUDA=ON")));
    return;
  }
  const Backend& cuda = backend_of(DeviceKind::cuda);
  EXPECT_EQ(cuda.name(), "cuda");
  for (int id = 0; id < operation_count; ++id)
    for (const DType type : {DType::float32, DType::float64})
      EXPECT_EQ(cuda.support(static_cast<OperationId>(id), type),
                cuda_emulated::backend().support(static_cast<OperationId>(id), type))
          << operation_names[id] << " " << name_of(type);
}

TEST(Backends, AGpuThatIsNotThereIsOneSentence) {
  const int count = cuda_device_count();
  const std::string why = why_no_cuda_device();
  EXPECT_EQ(why.empty(), count > 0) << why;
  if (!built_with_cuda) {
    EXPECT_THAT(why, HasSubstr("built without CUDA"));
  }
  const std::string reason = count > 0 ? "this machine has" : why;
  EXPECT_THAT([&] { allocator_of({DeviceKind::cuda, count}); }, ThrowsMessage<Error>(HasSubstr(reason)));
  EXPECT_THAT([] { allocator_of({DeviceKind::cuda, -1}); }, ThrowsMessage<Error>(HasSubstr(reason)));
  EXPECT_THAT(why, testing::Not(testing::ContainsRegex("\n|[.]$")));
}

TEST(Backends, AGpusMemoryIsMadeOnce) {
  if (cuda_device_count() == 0) GTEST_SKIP() << why_no_cuda_device();
  Allocator& allocator = allocator_of({DeviceKind::cuda, 0});
  EXPECT_EQ(&allocator, &allocator_of({DeviceKind::cuda, 0}));
  EXPECT_EQ(allocator.device(), (Device{DeviceKind::cuda, 0}));
  const std::vector<float> sent{1, 2, 3};
  std::vector<float> received(3);
  const Buffer buffer(allocator, sizeof(float) * sent.size(), MemoryKind::workspace);
  allocator.upload(buffer.data(), sent.data(), buffer.bytes(), allocator.stream());
  allocator.download(received.data(), buffer.data(), buffer.bytes(), allocator.stream());
  allocator.synchronize(allocator.stream());
  EXPECT_EQ(received, sent);
}

}  // namespace

}  // namespace comera::test
