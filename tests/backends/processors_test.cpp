// Which device a name stands for.

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

std::string message_of_auto(const GpuReport& gpus) {
  testing::internal::CaptureStderr();
  const Processor processor = find_processor("auto", DType::float32, OperandKind::as_they_are, gpus);
  EXPECT_EQ(processor.allocator.device(), Device{});
  return testing::internal::GetCapturedStderr();
}

TEST(Processors, AutomaticSaysWhyAGpuIsNotUsed) {
  const GpuReport none{.why_none = "no driver was found"};
  EXPECT_EQ(message_of_auto(none), "");
  const GpuReport old{.why_none = "the driver is too old", .misses_one = true};
  EXPECT_EQ(message_of_auto(old), "note: this runs on the CPU: the driver is too old\n");
  EXPECT_EQ(message_of_auto(old), "") << "it has been said";
  const GpuReport turing{.count = 1, .why_unfit = [](int) { return std::string("cuda:0 is too old"); }};
  EXPECT_EQ(message_of_auto(turing), "note: this runs on the CPU: cuda:0 is too old\n");
}

TEST(Processors, AGpuThatCannotBeUsedIsRefused) {
  const auto refusal = [](const char* name, const GpuReport& gpus) {
    return [=] { find_processor(name, DType::float32, OperandKind::as_they_are, gpus); };
  };
  EXPECT_THAT(refusal("cuda", {.why_none = "the driver is too old", .misses_one = true}),
              ThrowsMessage<UsageError>(
                  "device \"cuda\": the driver is too old; run on the CPU with device \"cpu\""));
  const GpuReport second_is_old{.count = 2, .why_unfit = [](int device) {
                                  return std::string(device == 1 ? "cuda:1 is too old" : "");
                                }};
  EXPECT_THAT(refusal("cuda:1", second_is_old), ThrowsMessage<UsageError>(HasSubstr("cuda:1 is too old")));
}

}  // namespace
}  // namespace comera::test
