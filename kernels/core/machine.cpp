#include "kernels/core/machine.h"

#include <omp.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

namespace comera {

namespace {

namespace fs = std::filesystem;

// The first number of a file; nothing if it says "max", or is not there.
template <class Number>
bool read_number(const fs::path& file, Number& number) {
  return static_cast<bool>(std::ifstream(file) >> number);
}

void limit_memory(CgroupLimits& limits, const fs::path& file) {
  if (std::size_t bytes = 0; read_number(file, bytes)) limits.memory = std::min(limits.memory, bytes);
}

// Microseconds of CPU time in each period; negative: without a limit.
void limit_cpus(CgroupLimits& limits, double quota, double period) {
  if (quota > 0 && period > 0) limits.cpus = std::min(limits.cpus, quota / period);
}

void limit_as_version_2(CgroupLimits& limits, const fs::path& group) {
  limit_memory(limits, group / "memory.max");
  double quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) limit_cpus(limits, quota, period);
}

void limit_as_version_1(CgroupLimits& limits, const fs::path& group) {
  limit_memory(limits, group / "memory.limit_in_bytes");
  double quota = 0, period = 0;
  if (read_number(group / "cpu.cfs_quota_us", quota) && read_number(group / "cpu.cfs_period_us", period))
    limit_cpus(limits, quota, period);
}

// A container may see its own cgroup as the root, with a path that is not there.
template <class Body>
void for_each_cgroup(const fs::path& root, const std::string& path, const Body& body) {
  fs::path group = root;
  body(group);
  for (const fs::path& part : fs::path(path).relative_path()) body(group /= part);
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const CgroupLimits& own_limits() {
  static const CgroupLimits limits = cgroup_limits("/sys/fs/cgroup", text_of("/proc/self/cgroup"));
  return limits;
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root, const std::string& own) {
  CgroupLimits limits;
  limit_as_version_2(limits, root);
  std::istringstream lines(own);
  // "0::/path" of version 2; "4:cpu,cpuacct:/path" of version 1, whose hierarchies have folders of these
  // names.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (names.empty()) {
      // Beside version 1 its folder is "unified".
      for (const fs::path& folder : {root, root / "unified"})
        for_each_cgroup(folder, path, [&](const fs::path& group) { limit_as_version_2(limits, group); });
      continue;
    }
    std::istringstream controllers(names);
    for (std::string name; std::getline(controllers, name, ',');)
      if (name == "cpu" || name == "memory")
        for (const std::string& folder : {name, names})
          for_each_cgroup(root / folder, path,
                          [&](const fs::path& group) { limit_as_version_1(limits, group); });
  }
  return limits;
}

int cpus_within(const CgroupLimits& limits, int cpus) {
  return static_cast<int>(std::clamp(std::ceil(limits.cpus), 1., std::max(1., static_cast<double>(cpus))));
}

int own_cpus() { return cpus_within(own_limits(), omp_get_num_procs()); }

int machine_cpus() { return cpus_within(own_limits(), static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

std::size_t own_memory() {
  struct sysinfo machine {};
  std::size_t most = std::numeric_limits<std::size_t>::max();
  if (sysinfo(&machine) == 0) most = (machine.totalram + machine.totalswap) * machine.mem_unit;
  return std::min(most, own_limits().memory);
}

}  // namespace comera
