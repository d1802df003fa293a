// Every operation of a backend against the plain one in double precision, over awkward sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
// An instruction set that this processor has, and an operation.
using Parameter = std::tuple<std::string_view, OperationCase>;

class Operations : public testing::TestWithParam<Parameter> {
 protected:
  std::vector<OpTestContext::Output> outputs(const Backend& backend, DType compute,
                                             DType exact = DType::float32) const {
    OpTestContext world(backend, compute, host_allocator(), exact);
    std::get<1>(GetParam()).run(world);
    return world.outputs();
  }
  void expect_same_under_any_threads(DType compute) const;
  const Backend& backend() const { return cpu_backend(std::get<0>(GetParam())); }
  ~Operations() override { omp_set_num_threads(threads_); }

 private:
  int threads_ = omp_get_max_threads();
};

TEST_P(Operations, AgreesWithPlainDouble) {
  expect_close(outputs(backend(), DType::float32), outputs(reference_backend(), DType::float64),
               std::get<1>(GetParam()).tolerance);
}

void Operations::expect_same_under_any_threads(DType compute) const {
  omp_set_num_threads(1);
  const auto one = outputs(backend(), compute);
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto several = outputs(backend(), compute);
    ASSERT_EQ(one.size(), several.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(one[i].bits == several[i].bits) << one[i].name << " under " << threads << " threads";
    }
  }
}

TEST_P(Operations, DoesNotDependOnThreads) { expect_same_under_any_threads(DType::float32); }

class OperationsOnNaNs : public Operations {};

// In whichever tensor: what is not a number by the definition is not one here, so that a step that went wrong
// is seen. Of a case with hundreds of tensors, which are those of one piece of work again and again, the
// first 30 are tried, and every 31st behind them: a prime, so that all kinds have their turn.
TEST_P(OperationsOnNaNs, AreNotSwallowed) {
  std::uint32_t tensors = 1;
  for (std::uint32_t tensor = 0; tensor < tensors; tensor += tensor < 30 ? 1 : 31) {
    OpTestContext world(backend(), DType::float32), plain(reference_backend(), DType::float64);
    world.plant_nan(tensor), plain.plant_nan(tensor);
    std::get<1>(GetParam()).run(world), std::get<1>(GetParam()).run(plain);
    tensors = world.drawn_tensors();
    const auto got = world.outputs(), expected = plain.outputs();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      for (std::size_t at = 0; at < expected[i].values.size(); ++at)
        ASSERT_TRUE(std::isnan(got[i].values[at]) || !std::isnan(expected[i].values[at]))
            << got[i].name << '[' << at << "] with tensor " << tensor;
  }
}

class NarrowOperations : public Operations {};

TEST_P(NarrowOperations, AgreesWithPlainDouble) {
  expect_close(outputs(backend(), DType::bfloat16, DType::bfloat16),
               outputs(reference_backend(), DType::float64, DType::bfloat16), narrow_tolerance,
               narrow_statistic_tolerance);
}

TEST_P(NarrowOperations, DoesNotDependOnThreads) { expect_same_under_any_threads(DType::bfloat16); }

std::string name_of_case(const testing::TestParamInfo<Parameter>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
}

// Those with kernels of their own for float32.
std::vector<std::string_view> wide_sets() {
  std::vector<std::string_view> sets = cpu_instruction_sets();
  std::erase_if(sets, [](std::string_view set) { return set == "bf16" || set == "amx"; });
  return sets;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Operations,
                         testing::Combine(testing::ValuesIn(wide_sets()),
                                          testing::ValuesIn(operation_cases())),
                         name_of_case);
// Muon has a kernel of its own for AMX.
std::vector<std::string_view> amx_if_there_is() {
  std::vector<std::string_view> sets = cpu_instruction_sets();
  std::erase_if(sets, [](std::string_view set) { return set != "amx"; });
  return sets;
}
std::vector<OperationCase> muon_cases() {
  std::vector<OperationCase> cases = operation_cases();
  std::erase_if(cases, [](const OperationCase& one) { return !one.name.starts_with("Muon_"); });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Amx, Operations,
                         testing::Combine(testing::ValuesIn(amx_if_there_is()),
                                          testing::ValuesIn(muon_cases())),
                         name_of_case);

// It takes long.
INSTANTIATE_TEST_SUITE_P(Cpu, OperationsOnNaNs,
                         testing::Combine(testing::Values(wide_sets().back()),
                                          testing::ValuesIn(operation_cases())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Cpu, NarrowOperations,
                         testing::Combine(testing::ValuesIn(cpu_instruction_sets()),
                                          testing::ValuesIn(operation_cases_of(cpu_backend(),
                                                                               DType::bfloat16))),
                         name_of_case);
}  // namespace

}  // namespace comera::test
