#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>

namespace comera {

// What Linux's control groups (cgroups) allow the processes of a container, a job or a service.
struct CgroupLimits {
  std::size_t memory = std::numeric_limits<std::size_t>::max();  // bytes
  double cpus = std::numeric_limits<double>::infinity();         // CPU time per time
};
// The least limits of the cgroups that `own`, the text of /proc/self/cgroup, names under `root`, and of all
// that contain these. Versions 1 and 2; what cannot be read limits nothing.
CgroupLimits cgroup_limits(const std::filesystem::path& root, const std::string& own);

// The CPUs that this process may use, at least 1: those that it was started with (taskset, cpusets), however
// OpenMP has bound this thread since (OMP_PROC_BIND), or as many as its cgroups' CPU time fills, rounded up:
// more threads would be stopped for a part of every period, and wait for each other.
int own_cpus();
// `cpus`, or as many as the limits' CPU time fills, rounded up, at least 1.
int cpus_within(const CgroupLimits& limits, int cpus);
// All CPUs of the machine, or as many as the cgroups' CPU time fills: also those outside this process's set.
int machine_cpus();

// The bytes that this process may have: memory and swap, or less if its cgroups have a limit. A system that
// overcommits would grant more, and then kill the process silently.
std::size_t own_memory();

}  // namespace comera
