// What processes tell one another, and how a job ends that cannot go on.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "distributed/nccl_communicator.h"
#include "tests/distributed/mpirun.h"

namespace comera::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class Job : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = Mpirun::missing(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Job, SumsAndMaximaAreThoseOfAllProcesses) {
  for (const int processes : {1, 2, 3, 4}) {
    const ProgramResult result = run_processes(processes, {COMERA_WORKER, "sums"});
    EXPECT_EQ(result.code, 0) << processes << ": " << result.output;
    EXPECT_THAT(result.output, HasSubstr("done"));
  }
}

TEST_F(Job, TextsAndErrorsReachEveryRank) {
  const ProgramResult result = run_processes(3, {COMERA_WORKER, "texts"});
  EXPECT_EQ(result.code, 0) << result.output;
}

// OpenMP's settings bind the first thread before a process looks at what it was given.
TEST_F(Job, ProcessesShareTheCPUsHoweverOpenMPBindsThreads) {
  const int cpus = one_process().own_cpus();
  for (const char* setting : {"OMP_PROC_BIND=false", "OMP_PROC_BIND=close", "OMP_PLACES=cores"})
    for (const int processes : {1, 2}) {
      const ProgramResult result = run_processes(processes, {"/usr/bin/env", setting, COMERA_WORKER, "cpus"});
      EXPECT_EQ(result.code, 0) << result.output;
      EXPECT_THAT(result.output, HasSubstr(fmt::format("{} CPUs", std::max(1, cpus / processes)))) << setting;
    }
}

// It is loaded at run time: that each function is there is seen here, if the library is.
TEST(Nccl, HasTheFunctionsThatAreUsed) {
  try {
    EXPECT_THAT(nccl_version(), ContainsRegex("^2\\.[0-9]+\\.[0-9]+$"));
  } catch (const Error& error) {
    const std::string reason = error.what();
    if (reason.find("cannot be loaded") != reason.npos || reason.find("built without") != reason.npos)
      GTEST_SKIP() << reason;
    throw;
  }
}

TEST_F(Job, ARankThatDoesNotComeIsNamed) {
  for (const auto& [processes, late] : {std::pair(2, 1), std::pair(3, 2), std::pair(4, 0)}) {
    const ProgramResult result = run_processes(processes, {COMERA_WORKER, "stall", std::to_string(late)});
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.output,
                ContainsRegex(fmt::format("comera: error: process {} \\([^)]*\\) is alive, but has kept the "
                                          "others waiting for 2 s; this is the advice",
                                          late)));
    EXPECT_EQ(result.output.find("comera: error"), result.output.rfind("comera: error")) << result.output;
  }
}

TEST_F(Job, AFailureOfOneProcessEndsAllWithItsNameAndExitCode) {
  const ProgramResult result = run_processes(3, {COMERA_WORKER, "fail"});
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("comera: error: process 2 ("));
  EXPECT_THAT(result.output, HasSubstr("only this process has failed"));
}

TEST_F(Job, AFailureThatAllHaveIsSaidOnce) {
  const ProgramResult result = run_processes(3, {COMERA_WORKER, "nonsense"});
  EXPECT_EQ(result.code, 2);
  const std::size_t first = result.output.find("there is no case nonsense");
  ASSERT_NE(first, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("there is no case nonsense", first + 1), std::string::npos) << result.output;
}

}  // namespace
}  // namespace comera::test
