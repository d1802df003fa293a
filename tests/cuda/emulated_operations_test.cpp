// The CUDA kernels as host code, with their threads in three orders, against the reference backend in double
// precision.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/options.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/layer_norm.h"
#include "tests/cpu/float8_activation.h"
#include "tests/cpu/world.h"

namespace comera::test {
namespace {

using emulation::Order;

// Tests of the tests (scripts/mutants.sh) try all even under sanitizers.
#if defined(COMERA_ALL_ORDERS)
constexpr bool all_orders = true;
#else
constexpr bool all_orders = !COMERA_ASAN;
#endif

constexpr std::string_view slow_cases[] = {"_long",        "longest_512",  "shared_groups",  "_2080_gelu",
                                           "_512_30_48_1", "_512_30_48_0", "_20_16_32_25_48"};

bool is_slow(const OperationCase& operation) {
  return std::ranges::any_of(slow_cases,
                             [&](std::string_view name) { return operation.name.ends_with(name); });
}

std::vector<OperationCase> without_slow_ones(std::vector<OperationCase> all) {
  // Sanitizers multiply the time; the other cases go through the same lines.
  if (COMERA_ASAN || COMERA_TSAN) std::erase_if(all, is_slow);
  return all;
}

std::vector<OperationCase> cases(DType compute) {
  return without_slow_ones(operation_cases_of(cuda_emulated::backend(), compute));
}

class EmulatedOperations : public testing::TestWithParam<OperationCase> {
 protected:
  void TearDown() override { emulation::options() = before_; }
  std::vector<World::Output> outputs(const Backend& backend, DType compute, Allocator& allocator,
                                     DType exact) const {
    World world(backend, compute, allocator, exact);
    GetParam().run(world);
    return world.outputs();
  }
  // The same bits in every order: no sum depends on who comes first.
  void compare(DType compute, double tolerance, bool tf32 = false) const;
  std::unique_ptr<Allocator> device_ = cuda_emulated::make_allocator(0);
  emulation::Options before_ = emulation::options();
};

void EmulatedOperations::compare(DType compute, double tolerance, bool tf32) const {
  const auto expected = outputs(plain_backend(), DType::float64, host_allocator(), compute);
  const auto got = [&](Order order, std::uint64_t seed) {
    emulation::options().order = order;
    emulation::options().seed = seed;
    emulation::options().workers = COMERA_TSAN ? 2 : 1;
    return outputs(cuda_emulated::backend(tf32), compute, *device_, compute);
  };
  const auto forward = got(Order::forward, 1);
  expect_close(forward, expected, tolerance,
               compute == DType::bfloat16 ? narrow_statistic_tolerance : tolerance);
  if (COMERA_TSAN) return;  // finds races in any order; two workers show those between blocks
  std::vector<std::vector<World::Output>> others{got(Order::random, 1)};
  if (all_orders && !is_slow(GetParam())) {
    others.push_back(got(Order::reverse, 1));
    others.push_back(got(Order::random, 2));
  }
  for (const auto& other : others) {
    ASSERT_EQ(other.size(), forward.size());
    for (std::size_t i = 0; i < other.size(); ++i) {
      EXPECT_FALSE(other[i].overrun) << other[i].name;
      EXPECT_TRUE(other[i].bits == forward[i].bits)
          << other[i].name << " depends on the order of the threads";
    }
  }
}

TEST_P(EmulatedOperations, AgreeWithPlainDoubleInEveryOrder) {
  compare(DType::float32, GetParam().tolerance);
}

class EmulatedNarrowOperations : public EmulatedOperations {};

TEST_P(EmulatedNarrowOperations, AgreeWithPlainDoubleInEveryOrder) {
  compare(DType::bfloat16, narrow_tolerance);
}

class EmulatedTF32Operations : public EmulatedOperations {};

TEST_P(EmulatedTF32Operations, AgreeWithPlainDoubleInEveryOrder) {
  compare(DType::float32, GetParam().tolerance, true);
}

TEST(EmulatedFloat8, AnActivationsValuesAreQuantisedAsIfTheyWereWritten) {
  const auto device = cuda_emulated::make_allocator(0);
  expect_the_codes_of_an_activations_values(cuda_emulated::backend(), *device);
}

TEST(EmulatedNorms, RowsThatDoNotFitIntoRegistersAreRefused) {
  const auto device = cuda_emulated::make_allocator(0);
  const auto norm = [&](std::int64_t width) {
    World world(cuda_emulated::backend(), DType::float32, *device);
    world.run(LayerNormForward{.x = world.input({2, width}),
                               .gamma = world.master({width}),
                               .beta = world.master({width}),
                               .y = world.output("y", {2, width}),
                               .mean = world.statistic("mean", {2}),
                               .rstd = world.statistic("rstd", {2})});
  };
  EXPECT_NO_THROW(norm(6144));
  EXPECT_THAT([&] { norm(6160); }, testing::ThrowsMessage<Error>(testing::HasSubstr(
                                       "norms of rows of 6160 numbers: a GPU's kernel has at most 6144")));
  EXPECT_THAT([&] { norm(5377); }, testing::ThrowsMessage<Error>(testing::HasSubstr("at most 5376")));
}

// Non-query rows are zeros even if a key or a value is NaN.
TEST(EmulatedAttention, RowsThatAreNoQueriesAreZeros) {
  constexpr std::int64_t tokens = 40, queries = 3, heads = 2, size = 32;
  const auto device = cuda_emulated::make_allocator(0);
  for (const std::uint32_t tensor : {1, 2}) {  // k and v
    World world(cuda_emulated::backend(), DType::float32, *device);
    world.plant_nan(tensor);
    const Shape shape{tokens, heads * size};
    AttentionForward forward;
    forward.q = world.input(shape), forward.k = world.input(shape), forward.v = world.input(shape);
    forward.sequence_offsets = world.integers({0, tokens});
    forward.heads = heads, forward.longest = tokens, forward.queries = queries;
    forward.out = world.output("out", shape);
    forward.log_sum_exp = world.statistic("log_sum_exp", {heads, tokens});
    world.run(forward);
    AttentionBackward backward;
    backward.q = forward.q, backward.k = forward.k, backward.v = forward.v, backward.out = forward.out;
    backward.log_sum_exp = forward.log_sum_exp, backward.sequence_offsets = forward.sequence_offsets;
    backward.heads = heads, backward.longest = tokens, backward.queries = queries;
    backward.dout = world.input(shape);
    backward.dq = world.output("dq", shape);
    backward.dk = world.output("dk", shape), backward.dv = world.output("dv", shape);
    world.run(backward);
    for (const World::Output& output : world.outputs()) {
      if (output.name == "dk" || output.name == "dv") continue;
      const std::int64_t of_token = output.name == "log_sum_exp" ? 1 : heads * size;
      for (std::int64_t i = 0; i < std::ssize(output.values); ++i) {
        const std::int64_t token = i / of_token % tokens;
        if (token < queries) continue;
        ASSERT_EQ(output.values[i], 0) << output.name << '[' << i << "], tensor " << tensor;
      }
    }
  }
}

// The cases detect writes outside of tensors, in a device's memory too.
TEST(EmulatedWorld, NoticesWhatIsWrittenBesideATensor) {
  const auto device = cuda_emulated::make_allocator(0);
  for (const std::ptrdiff_t offset : {-1, 0, 11, 12}) {
    World world(cuda_emulated::backend(), DType::float32, *device);
    auto* data = static_cast<std::byte*>(world.output("x", {3}).raw());
    const std::byte byte{1};
    if (COMERA_ASAN && (offset < 0 || offset >= 12)) {
      EXPECT_DEATH(device->upload(data + offset, &byte, 1, device->stream()), "use-after-poison");
      continue;
    }
    device->upload(data + offset, &byte, 1, device->stream());
    EXPECT_EQ(world.outputs().at(0).overrun, offset < 0 || offset >= 12) << offset;
  }
}

std::string name_of(const testing::TestParamInfo<OperationCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(, EmulatedOperations, testing::ValuesIn(cases(DType::float32)), name_of);
INSTANTIATE_TEST_SUITE_P(, EmulatedNarrowOperations, testing::ValuesIn(cases(DType::bfloat16)), name_of);
INSTANTIATE_TEST_SUITE_P(, EmulatedTF32Operations, testing::ValuesIn(without_slow_ones(tf32_cases())),
                         name_of);

}  // namespace
}  // namespace comera::test
