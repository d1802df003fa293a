#include "kernels/core/profile.h"

#include <ctime>

#include <algorithm>
#include <map>
#include <mutex>

namespace comera {

namespace {
std::atomic<bool> profile_on = false;
std::mutex mutex;
std::map<std::string, ProfileEntry, std::less<>>& entries() {
  static std::map<std::string, ProfileEntry, std::less<>> map;
  return map;
}
}  // namespace

void profile_enable(bool enabled) { profile_on = enabled; }
bool ProfileScope::enabled() { return profile_on.load(std::memory_order_relaxed); }

ProfileScope::Times ProfileScope::now() noexcept {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {std::chrono::steady_clock::now(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

void ProfileScope::record() const noexcept {
  const Times end = now();
  const std::lock_guard lock(mutex);
  auto found = entries().find(name_);
  if (found == entries().end()) {
    ProfileEntry entry;
    entry.name = std::string(name_);
    found = entries().emplace(name_, entry).first;
  }
  ProfileEntry& entry = found->second;
  ++entry.calls;
  entry.seconds += std::chrono::duration<double>(end.wall - start_.wall).count();
  entry.cpu_seconds += end.cpu_seconds - start_.cpu_seconds;
  entry.work += work_;
}

std::vector<ProfileEntry> profile_entries() {
  const std::lock_guard lock(mutex);
  std::vector<ProfileEntry> list;
  for (const auto& [name, entry] : entries()) list.push_back(entry);
  std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return list;
}

void profile_reset() {
  const std::lock_guard lock(mutex);
  entries().clear();
}

}  // namespace comera
