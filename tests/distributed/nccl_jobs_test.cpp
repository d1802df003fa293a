// Jobs on several emulated GPUs, summed by a fake NCCL that checks NCCL's rules.
#include "tests/distributed/processes.h"
#include "tests/training/float8_overrides.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NcclJobs : public Processes {
 protected:
  // Eight micro-batches a step; a training of two phases of few steps. fault: as in nccl_worker.cpp.
  ProgramResult run(int processes, const std::string& name, const std::vector<std::string>& overrides = {},
                    const std::string& fault = "none") const {
    std::vector<std::string> command = {COMERA_NCCL_WORKER, "train", fault, write_recipe().string()};
    for (const char* setting :
         {"distributed.backend=nccl", "phase.0.micro_batches_per_step=8", "phase.1.micro_batches_per_step=8",
          "phase.0.steps=4", "phase.0.warmup_steps=1", "phase.1.steps=3", "phase.0.tokens_per_micro_batch=32",
          "phase.1.tokens_per_micro_batch=32", "run.log_interval=1", "run.threads=1",
          "run.checkpoint_interval=0", "run.evaluation_interval=0", "run.evaluation_batches=1",
          "model.dropout=0.1", "model.attention_dropout=0.1"})
      command.emplace_back(setting);
    command.push_back(fmt::format("run.output='{}'", (folder() / name).string()));
    command.insert(command.end(), overrides.begin(), overrides.end());
    return run_processes(processes, command);
  }
  void train(int processes, const std::string& name, const std::vector<std::string>& overrides = {},
             const std::string& fault = "none") const {
    const ProgramResult result = run(processes, name, overrides, fault);
    ASSERT_EQ(result.code, 0) << result.output;
    // Gradients and losses together, once in each phase as they are and once in the recording.
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("8 sums in 4 launches of NCCL"), Not(HasSubstr("NCCL could not be ended"))));
  }
};

TEST_F(NcclJobs, StepsDoNotDependOnTheNumberOfGpus) {
  train(1, "one");
  for (const int processes : {2, 8}) {
    const std::string name = fmt::format("of-{}", processes);
    train(processes, name);
    expect_the_same("one", name, 1e-5);
  }
}

// Whatever order the streams of the GPUs work in, with graphs and without.
TEST_F(NcclJobs, AsManyGpusGiveTheSameBits) {
  train(2, "once");
  train(2, "again", {}, "order");
  expect_equal_checkpoints(newest("once"), newest("again"));
  const ProgramResult without = run(2, "without", {"run.graphs=false"});
  ASSERT_EQ(without.code, 0) << without.output;
  expect_equal_checkpoints(newest("once"), newest("without"));
}

TEST_F(NcclJobs, NarrowTypesDoNotDependOnTheNumberOfGpus) {
  const std::vector<std::string> narrow = {"precision.compute=bf16"};
  train(1, "one", narrow);
  train(2, "two", narrow);
  expect_the_same("one", "two", 2e-3);
}

TEST_F(NcclJobs, AProcessThatCannotRecordEndsTheJob) {
  const ProgramResult result = run(2, "run", {}, "capture");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("comera: error: process 1 could not record its step as a graph, and others could: "),
            HasSubstr("cudaErrorStreamCaptureUnsupported"),
            HasSubstr("all must do the same, so train without graphs: --graph off")));
}

TEST_F(NcclJobs, WithoutRecordingsOnAllProcessesTheJobGoesOn) {
  const ProgramResult result = run(2, "run", {}, "all captures");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("the step could not be recorded as a graph, and continues without one"));
}

TEST_F(NcclJobs, AnErrorOfOneProcessEndsTheOthers) {
  const ProgramResult result = run(3, "run", {}, "error");
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("comera: error: process 2 ("), HasSubstr("this process's disk has gone")));
}

class NcclSums : public NcclJobs {
 protected:
  ProgramResult sum(int processes, const std::string& fault) const {
    return run_processes(processes, {COMERA_NCCL_WORKER, "sum", fault});
  }
  void expect_a_refusal(const std::string& fault, const std::string& reason) const {
    const ProgramResult result = sum(2, fault);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("comera: error: "),
                                     HasSubstr("NCCL can no longer sum over the GPUs"), HasSubstr(reason)));
  }
};

TEST_F(NcclSums, KeepTheRules) {
  const ProgramResult result = sum(3, "none");
  EXPECT_EQ(result.code, 0) << result.output;
}

// Two ranges in each of four buckets, as they are and in a recording.
TEST_F(NcclSums, ManyGradientsAreSummedBucketByBucket) {
  const ProgramResult result = run_processes(2, {COMERA_NCCL_WORKER, "buckets", "none"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("16 sums in 8 launches of NCCL"));
}

TEST_F(NcclSums, ACaptureOnSomeRanksOnlyIsRefused) {
  expect_a_refusal("capture", "rank 1 has captured its operation, and rank 0 has not");
}

TEST_F(NcclSums, OtherCountsAndOperationsAreRefused) {
  expect_a_refusal("count", "have other operations, types or counts");
  expect_a_refusal("type", "have other operations, types or counts");
}

TEST_F(NcclSums, ARankThatHasEndedIsAnErrorForTheOthers) {
  expect_a_refusal("end", "rank 1 has destroyed its communicator");
}

}  // namespace
}  // namespace comera::test
