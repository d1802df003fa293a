// The device that a name refers to.

#include "kernels/backends/processors.h"

#include <gmock/gmock.h>

#include "kernels/backends/backends.h"
#include "kernels/core/check.h"
#include "kernels/core/device_name.h"

namespace comera::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Processors, NamesOfDevices) {
  EXPECT_EQ(device_named("cpu"), Device{});
  EXPECT_EQ(device_named("cuda"), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(device_named("cuda:3"), (Device{DeviceKind::cuda, 3}));
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "auto"})
    EXPECT_FALSE(device_named(wrong)) << wrong;
  EXPECT_TRUE(is_device_name("auto"));
  EXPECT_FALSE(is_device_name("gpu"));
}

TEST(Processors, AutomaticIsTheGpuIfThereIsOneThatCanComputeInTheType) {
  const DeviceKind expected = cuda_device_count() > 0 ? DeviceKind::cuda : DeviceKind::cpu;
  EXPECT_EQ(find_processor("auto", DType::float32).allocator.device().kind, expected);
  EXPECT_EQ(find_processor("auto", DType::bfloat16).allocator.device().kind, expected);
  EXPECT_EQ(find_processor("auto", DType::float64).allocator.device().kind, DeviceKind::cpu);
  EXPECT_EQ(find_processor("cpu", DType::float32).allocator.device(), Device{});
  EXPECT_EQ(find_processor("cpu", DType::float32, OperandKind::tf32).allocator.device(), Device{});
}

TEST(Processors, TheCpuComputesInEveryType) {
  for (const DType type : {DType::float32, DType::float64, DType::bfloat16})
    EXPECT_EQ(find_processor("cpu", type).allocator.device(), Device{}) << name_of(type);
}

TEST(Processors, WhatIsNotThereIsOneSentence) {
  EXPECT_THAT([] { find_processor("gpu", DType::float32); },
              ThrowsMessage<UsageError>(HasSubstr("give auto, cpu, cuda or cuda:N")));
  if (cuda_device_count() == 0) {
    EXPECT_THAT([] { find_processor("cuda", DType::float32); },
                ThrowsMessage<UsageError>(HasSubstr(why_no_cuda_device() + "; run on the CPU")));
  } else {
    EXPECT_THAT([] { find_processor("cuda:99", DType::float32); },
                ThrowsMessage<UsageError>(HasSubstr("this machine has")));
    EXPECT_THAT([] { find_processor("cuda", DType::float64); },
                ThrowsMessage<UsageError>(HasSubstr("cannot compute in float64")));
  }
}

}  // namespace
}  // namespace comera::test
