// What the planner is told of GPUs.
#include "kernels/cuda/machine.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"

namespace comera::test {
namespace {

struct Gpu {
  const char* name;
  GpuProperties properties;
  double float32, tf32, bfloat16, bytes;  // NVIDIA's numbers, per second
};

TEST(GpuMachine, IsWhatDataSheetsSay) {
  const Gpu gpus[] = {
      {"A100", {80, 108, 1.41e9, 1.215e9, 5120}, 19.5e12, 156e12, 312e12, 1.555e12},
      {"RTX 3090", {86, 82, 1.695e9, 9.751e9, 384}, 35.6e12, 35.6e12, 71e12, 0.936e12},
      {"L40S", {89, 142, 2.52e9, 9.001e9, 384}, 91.6e12, 91.6e12, 183e12, 0.864e12},
      {"H100", {90, 132, 1.83e9, 2.619e9, 5120}, 62e12, 494e12, 989e12, 3.35e12},
  };
  for (const Gpu& gpu : gpus) {
    const MachineModel exact = cuda_emulated::machine_of(gpu.properties, false);
    const MachineModel rounded = cuda_emulated::machine_of(gpu.properties, true);
    EXPECT_NEAR(exact.flops_in(DType::float32), gpu.float32, 0.02 * gpu.float32) << gpu.name;
    EXPECT_NEAR(rounded.flops_in(DType::float32), gpu.tf32, 0.02 * gpu.tf32) << gpu.name;
    EXPECT_NEAR(exact.flops_in(DType::bfloat16), gpu.bfloat16, 0.02 * gpu.bfloat16) << gpu.name;
    EXPECT_NEAR(exact.bytes_per_second, gpu.bytes, 0.02 * gpu.bytes) << gpu.name;
  }
}

// Newer ones than are known count as the newest that is.
TEST(GpuMachine, EveryCapabilityHasRates) {
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 110, 120, 121, 130})
    EXPECT_GT(cuda_emulated::machine_of({.capability = capability}, true).flops_per_second, 0) << capability;
}

TEST(GpuMachine, HoldsPartsOfItsMemory) {
  const auto part_mib = [](double gigabytes) {
    const GpuProperties gpu{.memory = static_cast<std::int64_t>(gigabytes * 1e9)};
    return cuda_emulated::machine_of(gpu, false).part_bytes >> 20;
  };
  EXPECT_EQ(part_mib(0.5), 16);
  EXPECT_EQ(part_mib(8.3), 64);
  EXPECT_EQ(part_mib(8.6), 128);
  EXPECT_EQ(part_mib(25.4), 256);
  EXPECT_EQ(part_mib(85), 512);
  EXPECT_EQ(part_mib(150), 512);
}

TEST(GpuMachine, PadsHeads) {
  const MachineModel gpu = cuda_emulated::machine_of({}, false), exact;
  EXPECT_EQ(gpu.columns_with_scores(33, 16), 128);
  EXPECT_EQ(gpu.columns_with_scores(16, 32), 64);
  EXPECT_TRUE(gpu.takes_head(128));
  EXPECT_FALSE(gpu.takes_head(129));
  EXPECT_EQ(exact.columns_with_scores(33, 16), 49);
  EXPECT_TRUE(exact.takes_head(1000));
}

TEST(GpuMachine, IsThatOfTheBackend) {
  const MachineModel expected = cuda_emulated::machine_of(cuda_emulated::first_gpu(), true);
  EXPECT_EQ(cuda_emulated::backend(true).machine().flops_per_second, expected.flops_per_second);
  EXPECT_GT(expected.flops_per_second, cuda_emulated::backend().machine().flops_per_second);
}

TEST(GpuMachine, WithoutAGpuIsAnH100) {
  const MachineModel machine = cuda_emulated::machine_of({}, false);
  EXPECT_DOUBLE_EQ(h100.flops_per_second, machine.flops_per_second);
  EXPECT_DOUBLE_EQ(h100.narrow_flops_per_second, machine.narrow_flops_per_second);
  EXPECT_DOUBLE_EQ(h100.bytes_per_second, machine.bytes_per_second);
  EXPECT_DOUBLE_EQ(h100.seconds_per_call, machine.seconds_per_call);
  EXPECT_EQ(h100.part_bytes, machine.part_bytes);
  EXPECT_EQ(h100.cached_bytes, machine.cached_bytes);
  EXPECT_EQ(h100.head_sizes, machine.head_sizes);
}

}  // namespace
}  // namespace comera::test
