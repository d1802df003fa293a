// The emulation of CUDA's threads: valid kernels work in every order, and invalid operations are detected.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "kernels/emulation/async_copies.h"
#include "kernels/emulation/language.h"
#include "kernels/emulation/runtime.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/emulation/tensor_cores.h"

namespace comera::emulation {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Runs each test in every order.
class Emulation : public testing::TestWithParam<Order> {
 protected:
  void SetUp() override {
    before_ = options();
    options().order = GetParam();
  }
  void TearDown() override { options() = before_; }

 private:
  Options before_;
};

__global__ void number_threads(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(1000 * block + thread);
}

TEST_P(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> out(6 * 40);
  launch("number_threads", number_threads, {3, 2, 1}, {5, 4, 2}, 0, nullptr, out.data());
  for (int i = 0; i < 240; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], 1000 * (i / 40) + i % 40);
}

// Sums by a tree in shared memory.
__global__ void block_sum(const int* in, int* out) {
  int* shared = reinterpret_cast<int*>(shared_memory(blockDim.x * sizeof(int)));
  shared[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}

TEST_P(Emulation, BarriersOrderSharedMemory) {
  std::vector<int> in(7 * 256), out(7);
  std::iota(in.begin(), in.end(), 0);
  launch("block_sum", block_sum, {7}, {256}, 1024, nullptr, in.data(), out.data());
  for (int b = 0; b < 7; ++b) EXPECT_EQ(out[static_cast<std::size_t>(b)], 256 * (256 * b) + 255 * 256 / 2);
}

__global__ void without_barrier(const int* in, int* out) {
  int* shared = reinterpret_cast<int*>(shared_memory(blockDim.x * sizeof(int)));
  shared[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

// Shared memory starts as 0xFF, so that reading unwritten memory shows.
TEST_P(Emulation, AMissingBarrierChangesTheResult) {
  if (COMERA_TSAN) GTEST_SKIP() << "the race is reported";
  std::vector<int> in(64, 3), out(64);
  launch("without_barrier", without_barrier, {1}, {64}, 256, nullptr, in.data(), out.data());
  EXPECT_THAT(out, testing::Contains(-1));
}

struct alignas(16) Four {
  int at[4];
};

// Two copies, and the memory before and after waiting for them.
__global__ void two_copies(const Four* in, Four* out) {
  auto* shared = reinterpret_cast<Four*>(shared_memory(2 * sizeof(Four)));
  AsyncCopies copies;
  copies.add(shared, in, true);
  copies.add(shared + 1, in + 1, true);
  out[0] = shared[0], out[1] = shared[1];
  copies.wait();
  out[2] = shared[0], out[3] = shared[1];
  copies.add(shared, nullptr, false);
  copies.wait();
  out[4] = shared[0];
}

TEST_P(Emulation, AsynchronousCopiesAreEarlyOrLate) {
  const std::vector<Four> in{{{1, 2, 3, 4}}, {{5, 6, 7, 8}}};
  std::vector<Four> out(5);
  launch("two_copies", two_copies, {1}, {1}, 2 * sizeof(Four), nullptr, in.data(), out.data());
  EXPECT_THAT(out[0].at, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(out[1].at, testing::Each(-1));
  EXPECT_THAT(out[2].at, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(out[3].at, testing::ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(out[4].at, testing::Each(0));
}

__global__ void copy_to(Four* in, std::size_t bytes_behind, int count) {
  auto* shared = shared_memory(2 * sizeof(Four));
  AsyncCopies copies;
  for (int i = 0; i < count; ++i) copies.add(shared + bytes_behind, in, true);
}

TEST_P(Emulation, ACopyThatIsNoneIsAnError) {
  Four in{};
  EXPECT_THAT([&] { launch("copy_to", copy_to, {1}, {1}, 2 * sizeof(Four), nullptr, &in, 8, 1); },
              ThrowsMessage<EmulationError>(HasSubstr("does not begin at a multiple of 16 bytes")));
  EXPECT_THAT([&] { launch("copy_to", copy_to, {1}, {1}, 2 * sizeof(Four), nullptr, &in, 0, 130); },
              ThrowsMessage<EmulationError>(HasSubstr("more asynchronous copies are on their way")));
}

__global__ void warp_operations(int* out) {
  const int lane = lane_index();
  int* mine = out + 8 * threadIdx.x;
  mine[0] = __shfl_sync(full_warp, lane, 5);
  mine[1] = __shfl_xor_sync(full_warp, lane, 3);
  mine[2] = __shfl_down_sync(full_warp, lane, 4, 16);
  mine[3] = __shfl_up_sync(full_warp, lane, 1);
  mine[4] = static_cast<int>(__ballot_sync(full_warp, lane % 3 == 0));
  mine[5] = __any_sync(full_warp, lane == 31);
  mine[6] = __all_sync(full_warp, lane < 31);
  if (lane < 16) mine[7] = __shfl_xor_sync(0xffffu, 2 * lane, 1);
}

TEST_P(Emulation, WarpOperations) {
  std::vector<int> out(8 * 64);
  launch("warp_operations", warp_operations, {1}, {64}, 0, nullptr, out.data());
  int thirds = 0;
  for (int lane = 0; lane < 32; lane += 3) thirds |= static_cast<int>(1u << lane);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* mine = out.data() + 8 * thread;
    EXPECT_EQ(mine[0], 5);
    EXPECT_EQ(mine[1], lane ^ 3);
    EXPECT_EQ(mine[2], lane % 16 + 4 < 16 ? lane + 4 : lane);
    EXPECT_EQ(mine[3], lane == 0 ? 0 : lane - 1);
    EXPECT_EQ(mine[4], thirds);
    EXPECT_EQ(mine[5], 1);
    EXPECT_EQ(mine[6], 0);
    EXPECT_EQ(mine[7], lane < 16 ? 2 * (lane ^ 1) : 0);
  }
}

// Four consecutive matrices of 8 x 8; number i is i.
__global__ void matrices(unsigned* out) {
  auto* numbers = reinterpret_cast<std::uint16_t*>(shared_memory(512));
  for (int i = 0; i < 8; ++i) numbers[8 * threadIdx.x + i] = static_cast<std::uint16_t>(8 * threadIdx.x + i);
  __syncwarp();
  unsigned straight[4], transposed[4];
  load_matrices(straight, numbers + 8 * threadIdx.x);
  load_matrices_transposed(transposed, numbers + 8 * threadIdx.x);
  for (int i = 0; i < 4; ++i) {
    out[8 * threadIdx.x + i] = straight[i];
    out[8 * threadIdx.x + 4 + i] = transposed[i];
  }
}

TEST_P(Emulation, MatricesAreLoadedIntoFragments) {
  std::vector<unsigned> out(8 * 32);
  launch("matrices", matrices, {1}, {32}, 512, nullptr, out.data());
  const auto pair = [](unsigned first, unsigned second) { return first | second << 16; };
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const unsigned row = lane / 4, column = lane % 4 * 2, begin = 64 * matrix;
      EXPECT_EQ(out[8 * lane + matrix], pair(begin + 8 * row + column, begin + 8 * row + column + 1));
      EXPECT_EQ(out[8 * lane + 4 + matrix], pair(begin + 8 * column + row, begin + 8 * (column + 1) + row));
    }
}

__global__ void count_up(int* counter, float* sum) {
  atomicAdd(counter, 2);
  atomicAdd(sum, 0.5F);
}

TEST_P(Emulation, Atomics) {
  int counter = 0;
  float sum = 0;
  options().workers = 2;
  launch("count_up", count_up, {9}, {96}, 0, nullptr, &counter, &sum);
  EXPECT_EQ(counter, 2 * 9 * 96);
  EXPECT_EQ(sum, 0.5F * 9 * 96);
}

__global__ void votes(int* out) { out[threadIdx.x] = __syncthreads_or(threadIdx.x == 41 ? 1 : 0); }

TEST_P(Emulation, VotesOfABlock) {
  std::vector<int> out(50);
  launch("votes", votes, {1}, {50}, 0, nullptr, out.data());
  EXPECT_THAT(out, testing::Each(1));
}

// ---- Undefined behaviour is reported with kernel, thread and line, and the next launch works.

__global__ void divergent(int* out) {
  if (threadIdx.x < 16)  // NOLINT(bugprone-branch-clone): other lines
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void some_leave_the_warp(int* out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = __shfl_xor_sync(full_warp, 1, 1);
}
__global__ void some_never_come(int* out) {
  if (threadIdx.x < 8) __syncwarp(0xffffu);
  if (threadIdx.x >= 8 && threadIdx.x < 16) __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void different_operations(int* out) {
  if (threadIdx.x % 2 == 0)
    out[threadIdx.x] = __shfl_xor_sync(full_warp, 1, 2);
  else
    __syncwarp();
}
__global__ void foreign_lane(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1, 20);
}
__global__ void not_in_mask(int* out) { out[threadIdx.x] = __shfl_sync(0x1u, 1, 0); }
__global__ void too_much_shared(int* out) { out[threadIdx.x] = static_cast<int>(*shared_memory(65)); }

TEST_P(Emulation, WhatIsNotDefinedIsRefused) {
  if (COMERA_TSAN) GTEST_SKIP() << "stacks that were given up look like races";
  std::vector<int> out(32);
  const auto refused = [&](const char* name, void (*kernel)(int*), const char* why) {
    EXPECT_THAT([&] { launch(name, kernel, {2}, {32}, 64, nullptr, out.data()); },
                ThrowsMessage<EmulationError>(testing::AllOf(HasSubstr(std::string("kernel ") + name),
                                                             HasSubstr("block ("),
                                                             HasSubstr("block_test.cpp:"), HasSubstr(why))))
        << name;
    int counter = 0;
    float sum = 0;
    launch("count_up", count_up, {2}, {64}, 0, nullptr, &counter, &sum);
    EXPECT_EQ(counter, 256);
  };
  refused("divergent", divergent, "other threads of the block wait at another barrier");
  refused("some_leave_the_warp", some_leave_the_warp, "has ended");
  refused("some_never_come", some_never_come, "");
  refused("different_operations", different_operations, "lanes of one warp meet in different operations");
  refused("foreign_lane", foreign_lane, "a shuffle reads from a lane that does not take part");
  refused("not_in_mask", not_in_mask, "the mask does not name the calling lane");
  EXPECT_THAT([&] { launch("too_much_shared", too_much_shared, {1}, {32}, 64, nullptr, out.data()); },
              ThrowsMessage<EmulationError>(HasSubstr("more shared memory is used than the launch gave")));
}

TEST_P(Emulation, ImpossibleLaunches) {
  int counter = 0;
  float sum = 0;
  const auto launched = [&](Index3 grid, Index3 block, std::size_t shared) {
    return [&, grid, block, shared] {
      launch("count_up", count_up, grid, block, shared, nullptr, &counter, &sum);
    };
  };
  EXPECT_THAT(launched({1}, {1025}, 0), ThrowsMessage<EmulationError>(HasSubstr("a block of 1025 threads")));
  EXPECT_THAT(launched({0}, {32}, 0), ThrowsMessage<EmulationError>(HasSubstr("a grid of 0 x 1 x 1")));
  EXPECT_THAT(launched({1, 65536}, {32}, 0), ThrowsMessage<EmulationError>(HasSubstr("65536")));
  EXPECT_THAT(launched({1}, {32}, 232449), ThrowsMessage<EmulationError>(HasSubstr("232449 bytes")));
  EXPECT_EQ(counter, 0);
}

__global__ void order_of_turns(int* order, int* next) { order[(*next)++] = static_cast<int>(threadIdx.x); }

TEST(EmulationOrder, IsWhatWasAskedFor) {
  if (COMERA_TSAN) GTEST_SKIP() << "the counter is shared without order";
  const Options before = options();
  const auto turns = [&](Order order, std::uint64_t seed) {
    options().order = order;
    options().seed = seed;
    std::vector<int> seen(64);
    int next = 0;
    launch("order_of_turns", order_of_turns, {1}, {64}, 0, nullptr, seen.data(), &next);
    return seen;
  };
  std::vector<int> sorted(64);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_EQ(turns(Order::forward, 1), sorted);
  EXPECT_EQ(turns(Order::reverse, 1), std::vector<int>(sorted.rbegin(), sorted.rend()));
  EXPECT_NE(turns(Order::random, 1), sorted);
  EXPECT_NE(turns(Order::random, 1), turns(Order::random, 2));
  EXPECT_EQ(turns(Order::random, 3), turns(Order::random, 3));
  const std::vector<int> random = turns(Order::random, 1);
  EXPECT_EQ(std::set<int>(random.begin(), random.end()).size(), 64U);
  options() = before;
}

// ---- Kernels in which the sanitizers find errors. The controls are the tests above. Each block has separate
// elements of `out`, except in across_blocks().

__device__ int* of_block(int* out) { return out + blockIdx.x * blockDim.x; }

__global__ void warp_without_fence(int* out) {
  int* shared = reinterpret_cast<int*>(shared_memory(blockDim.x * sizeof(int)));
  shared[threadIdx.x] = 1;
  __shfl_sync(full_warp, 1, 0);  // orders no memory
  of_block(out)[threadIdx.x] = shared[threadIdx.x ^ 1u];
}
__global__ void write_after_read(int* out) {
  int* shared = reinterpret_cast<int*>(shared_memory(blockDim.x * sizeof(int)));
  for (int round = 0; round < 2; ++round) {
    shared[threadIdx.x] = round;
    __syncthreads();
    of_block(out)[threadIdx.x] =
        shared[(threadIdx.x + 1) % blockDim.x];  // and no barrier before the next round
  }
}
__global__ void one_place(int* out) { of_block(out)[0] = 1; }
__global__ void across_blocks(int* out) { out[threadIdx.x] += 1; }
__global__ void with_syncwarp(int* out) {
  int* shared = reinterpret_cast<int*>(shared_memory(blockDim.x * sizeof(int)));
  shared[threadIdx.x] = 1;
  __syncwarp();
  of_block(out)[threadIdx.x] = shared[threadIdx.x ^ 1u];
}
__global__ void beyond_shared(int* out) { out[0] = reinterpret_cast<int*>(shared_memory(64))[16]; }
__global__ void beyond_global(int* out) { out[blockDim.x] = 1; }

class EmulationDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    before_ = options();
    options().workers = 2;
  }
  void TearDown() override { options() = before_; }
  Options before_;
};

TEST_F(EmulationDeathTest, ThreadSanitizerFindsRaces) {
  if (!COMERA_TSAN) GTEST_SKIP() << "not built with ThreadSanitizer";
  std::vector<int> out(512);
  const auto run = [&](void (*kernel)(int*)) {
    launch("kernel", kernel, {8}, {64}, 256, nullptr, out.data());
    std::exit(0);  // ThreadSanitizer makes it another status if it reported something
  };
  EXPECT_EXIT(run(across_blocks), testing::ExitedWithCode(66), "data race");
  for (const int workers : {1, 2}) {
    options().workers = workers;
    EXPECT_EXIT(run(warp_without_fence), testing::ExitedWithCode(66), "data race");
    EXPECT_EXIT(run(write_after_read), testing::ExitedWithCode(66), "data race");
    EXPECT_EXIT(run(one_place), testing::ExitedWithCode(66), "data race");
    EXPECT_EXIT(run(with_syncwarp), testing::ExitedWithCode(0), "");
  }
}

TEST_F(EmulationDeathTest, AddressSanitizerFindsOverruns) {
  if (!COMERA_ASAN) GTEST_SKIP() << "not built with AddressSanitizer";
  void* out = nullptr;
  ASSERT_EQ(cudaMalloc(&out, 64 * sizeof(int)), cudaSuccess);
  const auto run = [&](void (*kernel)(int*)) {
    launch("kernel", kernel, {1}, {64}, 64, nullptr, static_cast<int*>(out));
  };
  EXPECT_DEATH(run(beyond_shared), "use-after-poison|heap-buffer-overflow");
  EXPECT_DEATH(run(beyond_global), "heap-buffer-overflow");
  cudaFree(out);
}

std::string name_of(const testing::TestParamInfo<Order>& order) {
  constexpr const char* names[] = {"forward", "reverse", "random"};
  return names[static_cast<int>(order.param)];
}
INSTANTIATE_TEST_SUITE_P(, Emulation, testing::Values(Order::forward, Order::reverse, Order::random),
                         name_of);

}  // namespace
}  // namespace comera::emulation
