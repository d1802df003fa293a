// The CUDA backend on a GPU against the reference backend in double precision.

#include "kernels/cpu/plain/plain_backend.h"
#include "tests/cpu/world.h"
#include "tests/cuda/test_device.h"

namespace comera::test {
namespace {

// Without a GPU one of them, to report why it is skipped.
std::vector<OperationCase> or_one(std::vector<OperationCase> (*cases)()) {
  if (cuda_device_count() > 0) return cases();
  return {operation_cases().front()};
}

class CudaOperations : public testing::TestWithParam<OperationCase> {
 protected:
  // One for all cases: each would wait for the GPU to be made ready.
  static void SetUpTestSuite() {
    if (cuda_device_count() > 0) allocator_ = cuda::make_allocator(0);
  }
  static void TearDownTestSuite() { allocator_.reset(); }
  void SetUp() override { SKIP_WITHOUT_A_GPU(); }

  static std::vector<World::Output> outputs(const Backend& backend, DType compute, Allocator& allocator,
                                            DType exact) {
    World world(backend, compute, allocator, exact);
    GetParam().run(world);
    return world.outputs();
  }
  // Twice the same bits.
  static void compare(DType compute, double tolerance, bool tf32 = false);
  static inline std::unique_ptr<Allocator> allocator_;
};

void CudaOperations::compare(DType compute, double tolerance, bool tf32) {
  const auto on_gpu = [&] { return outputs(cuda::backend(tf32), compute, *allocator_, compute); };
  const auto first = on_gpu();
  expect_close(first, outputs(plain_backend(), DType::float64, host_allocator(), compute), tolerance,
               compute == DType::bfloat16 ? narrow_statistic_tolerance : tolerance);
  const auto second = on_gpu();
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < second.size(); ++i) {
    EXPECT_FALSE(second[i].overrun) << second[i].name;
    EXPECT_TRUE(second[i].bits == first[i].bits) << second[i].name << " is not the same twice";
  }
}

TEST_P(CudaOperations, AgreeWithPlainDoubleTwiceTheSame) { compare(DType::float32, GetParam().tolerance); }

class CudaNarrowOperations : public CudaOperations {};

TEST_P(CudaNarrowOperations, AgreeWithPlainDoubleTwiceTheSame) { compare(DType::bfloat16, narrow_tolerance); }

class CudaTF32Operations : public CudaOperations {};

TEST_P(CudaTF32Operations, AgreeWithPlainDoubleTwiceTheSame) {
  compare(DType::float32, GetParam().tolerance, true);
}

std::string name_of(const testing::TestParamInfo<OperationCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(, CudaOperations,
                         testing::ValuesIn(or_one([] { return operation_cases_of(cuda::backend()); })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(, CudaNarrowOperations, testing::ValuesIn(or_one([] {
                           return operation_cases_of(cuda::backend(), DType::bfloat16);
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(, CudaTF32Operations, testing::ValuesIn(or_one(tf32_cases)), name_of);

}  // namespace
}  // namespace comera::test
