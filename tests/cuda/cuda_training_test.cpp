// Whole models that train on a GPU.

#include "tests/cuda/training_checks.h"

namespace comera::test {
namespace {

class OnAGpu : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_A_GPU(); }
};
using CudaTraining = OnAGpu;
using CudaFeed = OnAGpu;

TEST_F(CudaTraining, TenLossesAreTheCpusCapturedOrNot) { expect_losses_of_the_cpu(first_gpu()); }

TEST_F(CudaTraining, NarrowActivationsLearnAsDoubleDoes) { expect_narrow_losses(first_gpu()); }

TEST_F(CudaTraining, RoundedOperandsLearnAsDoubleDoes) { expect_tf32_losses(first_gpu(true), first_gpu()); }

TEST_F(CudaTraining, NarrowGradientsAreThoseOfDouble) { expect_narrow_gradients(first_gpu()); }

TEST_F(CudaTraining, EveryLookupGivesTheSameLosses) { expect_every_lookup_to_agree(first_gpu()); }

TEST_F(CudaFeed, BlocksArriveInOrderAndAreKeptUntilTheyAreTaken) { expect_blocks_in_order(first_gpu()); }

class CudaRun : public RunFixture {
 protected:
  void SetUp() override { SKIP_WITHOUT_A_GPU(); }
};

TEST_F(CudaRun, LearnsAsTheCpuDoes) { expect_to_learn_as_the_cpu_does(first_gpu()); }

TEST_F(CudaRun, NarrowRunsAreResumed) {
  expect_the_same_bits_each_way(first_gpu(), {"precision.compute='bf16'"});
}

TEST_F(CudaRun, AdaptsRanks) { expect_to_adapt_ranks(first_gpu()); }

TEST_F(CudaRun, ReplayedNotReplayedAndResumedGiveTheSameBits) { expect_the_same_bits_each_way(first_gpu()); }

}  // namespace
}  // namespace comera::test
