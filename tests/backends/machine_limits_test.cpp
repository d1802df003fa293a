// How many CPUs and how much memory the cgroups of a container or a job leave: the folders that Linux
// shows, of both versions.
#include <gtest/gtest.h>

#include "kernels/core/machine.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

constexpr std::size_t any_memory = std::numeric_limits<std::size_t>::max();
constexpr double any_cpus = std::numeric_limits<double>::infinity();

class MachineLimits : public testing::Test {
 protected:
  void expect(const std::string& own, double cpus, std::size_t memory) const {
    const CgroupLimits limits = cgroup_limits(root_.path(), own);
    EXPECT_EQ(limits.cpus, cpus) << own;
    EXPECT_EQ(limits.memory, memory) << own;
  }
  TemporaryFolder root_;
};

TEST_F(MachineLimits, NothingLimitsNothing) {
  expect("", any_cpus, any_memory);
  expect("0::/\n", any_cpus, any_memory);
  expect("no line of this kind\n:\n::\n", any_cpus, any_memory);
}

TEST_F(MachineLimits, TheLeastOfAllGroupsAboveCounts) {
  root_.write("slice/cpu.max", "400000 100000\n");
  root_.write("slice/memory.max", "1000\n");
  root_.write("slice/job/cpu.max", "max 100000\n");
  root_.write("slice/job/memory.max", "max\n");
  root_.write("slice/job/step/cpu.max", "50000 20000\n");
  root_.write("slice/job/step/memory.max", "2000\n");
  expect("0::/\n", any_cpus, any_memory);
  expect("0::/slice\n", 4, 1000);
  expect("0::/slice/job\n", 4, 1000);
  expect("0::/slice/job/step\n", 2.5, 1000);
}

// Its path is that of the host, whose folders it does not see.
TEST_F(MachineLimits, AContainerSeesItsOwnGroupAsTheRoot) {
  root_.write("cpu.max", "150000 100000\n");
  root_.write("memory.max", "4096\n");
  expect("0::/\n", 1.5, 4096);
  expect("0::/docker/0123\n", 1.5, 4096);
  expect("", 1.5, 4096);
}

TEST_F(MachineLimits, VersionOneHasAFolderForEachHierarchy) {
  root_.write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root_.write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root_.write("cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  root_.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root_.write("memory/job/memory.limit_in_bytes", "8192\n");
  expect("5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job\n", 3, 8192);
  expect("5:cpu,cpuacct:/\n4:memory:/\n", any_cpus, any_memory);
  root_.write("cpu/job/cpu.cfs_quota_us", "200000\n");
  root_.write("cpu/job/cpu.cfs_period_us", "100000\n");
  expect("5:cpu,cpuacct:/job\n", 2, any_memory);
}

TEST_F(MachineLimits, BesideVersionOneVersionTwoHasAFolder) {
  root_.write("unified/job/memory.max", "512\n");
  root_.write("cpu/job/cpu.cfs_quota_us", "300000\n");
  root_.write("cpu/job/cpu.cfs_period_us", "100000\n");
  expect("5:cpu:/job\n0::/job\n", 3, 512);
}

TEST_F(MachineLimits, WhatIsNoLimitIsNotTaken) {
  root_.write("cpu.max", "0 0\n");
  root_.write("memory.max", "much\n");
  expect("0::/\n", any_cpus, any_memory);
  root_.write("cpu.max", "");
  expect("0::/\n", any_cpus, any_memory);
}

TEST_F(MachineLimits, AsManyThreadsAsFillTheTime) {
  for (const auto& [cpus, own, threads] :
       {std::tuple(0.1, 8, 1), std::tuple(1.0, 8, 1), std::tuple(1.5, 8, 2), std::tuple(64.0, 8, 8),
        std::tuple(any_cpus, 8, 8)})
    EXPECT_EQ(cpus_within({.cpus = cpus}, own), threads) << cpus;
  EXPECT_EQ(cpus_within({}, 0), 1);
}

TEST_F(MachineLimits, OfThisProcessAreAtLeastSomething) {
  EXPECT_GE(own_cpus(), 1);
  EXPECT_LE(own_cpus(), machine_cpus());
  EXPECT_GT(own_memory(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace comera::test
