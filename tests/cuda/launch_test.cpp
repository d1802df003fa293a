// What is checked before a kernel is launched; compiled as the emulated backend is.
#include "kernels/cuda/launch.h"

#include <gmock/gmock.h>

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CudaLaunch, AGridThatIsTooLargeNamesItsKernel) {
  EXPECT_THAT([] { cuda_emulated::check_shape("kernel", {.grid = {.x = std::int64_t{1} << 32}}); },
              ThrowsMessage<Error>(HasSubstr("kernel cannot be launched with 4294967296 x 1 x 1 blocks")));
  EXPECT_THAT([] { cuda_emulated::check_shape("kernel", {.grid = {.y = 65536}}); },
              ThrowsMessage<Error>(HasSubstr("1 x 65536 x 1 blocks")));
  cuda_emulated::check_shape("kernel", {.grid = {.x = 0x7fffffff, .y = 65535, .z = 65535}, .threads = 1024});
}

TEST(CudaLaunch, SharedMemoryIsWhatEveryGpuHas) {
  cuda_emulated::check_shape("kernel", {.shared_bytes = 99 << 10});
  EXPECT_THAT(
      [] { cuda_emulated::check_shape("kernel", {.shared_bytes = (99 << 10) + 1}); },
      ThrowsMessage<Error>(HasSubstr("kernel cannot be launched with 101377 bytes of shared memory")));
}

}  // namespace
}  // namespace comera::test
