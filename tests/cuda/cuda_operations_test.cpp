// The CUDA backend on a GPU against the plain backend in double precision.

#include "kernels/cpu/plain/plain_backend.h"
#include "tests/cpu/world.h"
#include "tests/cuda/test_device.h"

namespace comera::test {
namespace {

// Without a GPU one of them, to say why it is skipped.
std::vector<OperationCase> cases() {
  if (cuda_device_count() > 0) return operation_cases_of(cuda::backend());
  return {operation_cases().front()};
}

class CudaOperations : public testing::TestWithParam<OperationCase> {
 protected:
  // One for all cases: each would wait for the GPU to be made ready.
  static void SetUpTestSuite() {
    if (cuda_device_count() > 0) device_ = std::make_unique<TestDevice>(first_gpu());
  }
  static void TearDownTestSuite() { device_.reset(); }
  void SetUp() override { SKIP_WITHOUT_A_GPU(); }

  static std::vector<World::Output> outputs(const Backend& backend, DType compute, Allocator& allocator) {
    World world(backend, compute, allocator);
    GetParam().run(world);
    return world.outputs();
  }
  static std::vector<World::Output> outputs_of_gpu() {
    return outputs(device_->backend, DType::float32, *device_->allocator);
  }
  static inline std::unique_ptr<TestDevice> device_;
};

TEST_P(CudaOperations, AgreeWithPlainDoubleTwiceTheSame) {
  const auto first = outputs_of_gpu();
  expect_close(first, outputs(plain_backend(), DType::float64, host_allocator()), GetParam().tolerance);
  const auto second = outputs_of_gpu();
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < second.size(); ++i) {
    EXPECT_FALSE(second[i].overrun) << second[i].name;
    EXPECT_TRUE(second[i].bits == first[i].bits) << second[i].name << " is not the same twice";
  }
}

std::string name_of(const testing::TestParamInfo<OperationCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(, CudaOperations, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace comera::test
