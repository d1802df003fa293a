// Whole models that train on a GPU.

#include <optional>

#include "tests/cuda/training_checks.h"
#include "tests/training/float8_overrides.h"
#include "tests/training/nonfinite_run.h"

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

TEST_F(CudaTraining, ClicksAreLearntAsOnTheCpu) { expect_click_losses(first_gpu()); }

TEST_F(CudaTraining, EveryLookupGivesTheSameLosses) { expect_every_lookup_to_agree(first_gpu()); }

TEST_F(CudaTraining, LogitsAreThoseOfTheCpu) { expect_logits_of_the_cpu(first_gpu()); }

TEST_F(CudaFeed, BlocksArriveInOrderAndAreKeptUntilTheyAreTaken) { expect_blocks_in_order(first_gpu()); }

class CudaRun : public RunFixture {
 protected:
  void SetUp() override { SKIP_WITHOUT_A_GPU(); }
};

TEST_F(CudaRun, LearnsAsTheCpuDoes) { expect_to_learn_as_the_cpu_does(first_gpu()); }

TEST_F(CudaRun, EightBitRunsAreResumed) { expect_the_same_bits_each_way(first_gpu(), in_float8("delayed")); }

TEST_F(CudaRun, EightBitRunsBesideFloat32AreResumed) {
  expect_the_same_bits_each_way(first_gpu(), in_float8("current", {"precision.compute=fp8_fp32"}));
}

TEST_F(CudaRun, NarrowRunsAreResumed) {
  expect_the_same_bits_each_way(first_gpu(), {"precision.compute='bf16'"});
}

TEST_F(CudaRun, AveragesAreResumed) {
  expect_the_same_bits_each_way(first_gpu(), {"optim.average_decay=0.9"});
}

using CudaNccl = CudaRun;

// NCCL's sums over one rank, on its stream and in the recording, change no bit.
TEST_F(CudaNccl, OneRankIsTheRunWithout) {
  const TestDevice device = first_gpu();
  TrainingOutcome summed;
  try {
    summed = train("summed", device.with_graphs, {}, {"distributed.backend=nccl"});
  } catch (const Error& error) {
    const std::string reason = error.what();
    if (reason.find("NCCL cannot be loaded") == std::string::npos &&
        reason.find("built without NCCL") == std::string::npos)
      throw;
    GTEST_SKIP() << reason;
  }
  const TrainingOutcome alone = train("alone", device.with_graphs);
  EXPECT_EQ(losses("summed"), losses("alone"));
  expect_equal_checkpoints(summed.checkpoint, alone.checkpoint);
}

class CudaNonfinite : public NonfiniteRun {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_A_GPU();
    device_.emplace(first_gpu());
    processor_ = &device_->with_graphs;
  }
  std::optional<TestDevice> device_;
};

TEST_F(CudaNonfinite, ASkippedStepChangesNothingAndIsCounted) { expect_a_skipped_step_to_change_nothing(); }

TEST_F(CudaNonfinite, AFullRowStopsWithACheckpointToGoOnFrom) { expect_a_full_row_to_stop_and_to_go_on(); }

TEST_F(CudaNonfinite, InterruptedRowsGoOnToTheBit) { expect_rows_to_be_resumed(); }

TEST_F(CudaRun, AdaptsRanks) { expect_to_adapt_ranks(first_gpu()); }

TEST_F(CudaRun, ReplayedNotReplayedAndResumedGiveTheSameBits) { expect_the_same_bits_each_way(first_gpu()); }

}  // namespace
}  // namespace comera::test
