// Every operation of a backend against the plain one in double precision, over awkward sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "tests/cpu/world.h"

namespace comera::test {

namespace {
struct NamedBackend {
  const char* name;
  const Backend& (*backend)();
};
void PrintTo(const NamedBackend& backend, std::ostream* out) { *out << backend.name; }
const NamedBackend backends[] = {{"cpu", cpu_backend}};

using Parameter = std::tuple<NamedBackend, OperationCase>;

class Operations : public testing::TestWithParam<Parameter> {
 protected:
  std::vector<World::Output> outputs(const Backend& backend, DType compute) const {
    World world(backend, compute);
    std::get<1>(GetParam()).run(world);
    return world.outputs();
  }
  const Backend& backend() const { return std::get<0>(GetParam()).backend(); }
  ~Operations() override { omp_set_num_threads(threads_); }

 private:
  int threads_ = omp_get_max_threads();
};

TEST_P(Operations, AgreesWithPlainDouble) {
  expect_close(outputs(backend(), DType::float32), outputs(plain_backend(), DType::float64),
               std::get<1>(GetParam()).tolerance);
}

TEST_P(Operations, DoesNotDependOnThreads) {
  omp_set_num_threads(1);
  const auto one = outputs(backend(), DType::float32);
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto several = outputs(backend(), DType::float32);
    ASSERT_EQ(one.size(), several.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].bits == several[i].bits) << one[i].name << " under " << threads << " threads";
    }
  }
}

std::string name_of_case(const testing::TestParamInfo<Parameter>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Backends, Operations,
                         testing::Combine(testing::ValuesIn(backends), testing::ValuesIn(operation_cases())),
                         name_of_case);
}  // namespace

}  // namespace comera::test
