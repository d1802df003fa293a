#include "kernels/core/profile.h"

#include <ctime>

#include <algorithm>
#include <map>
#include <mutex>

namespace comera {

namespace {
std::atomic<bool> profile_on = false;
ProfileClock* clock_of_device = nullptr;
std::mutex mutex;
std::map<std::string, ProfileEntry, std::less<>>& entries() {
  static std::map<std::string, ProfileEntry, std::less<>> map;
  return map;
}
// Scopes whose device work may not be done yet.
struct Pending {
  ProfileEntry* entry;
  std::size_t from, to;
};
std::vector<Pending> pending;
}  // namespace

Profiling::Profiling(ProfileClock* clock) {
  clock_of_device = clock;
  profile_on = true;
}

void Profiling::finish() {
  profile_on = false;
  const std::lock_guard lock(mutex);
  for (const Pending& one : pending) one.entry->seconds += clock_of_device->seconds_between(one.from, one.to);
  pending.clear();
}

void Profiling::drop() noexcept {
  profile_on = false;
  const std::lock_guard lock(mutex);
  pending.clear();
  clock_of_device = nullptr;
}

bool ProfileScope::enabled() { return profile_on.load(std::memory_order_relaxed); }

ProfileScope::Times ProfileScope::now() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {std::chrono::steady_clock::now(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

void ProfileScope::start() {
  start_ = now();
  if (clock_of_device != nullptr) start_.mark = clock_of_device->mark();
}

void ProfileScope::record() const noexcept {
  const Times end = now();
  const std::size_t mark = clock_of_device != nullptr ? clock_of_device->mark() : 0;
  const std::lock_guard lock(mutex);
  auto found = entries().find(name_);
  if (found == entries().end()) {
    ProfileEntry entry;
    entry.name = std::string(name_);
    found = entries().emplace(name_, entry).first;
  }
  ProfileEntry& entry = found->second;
  if (clock_of_device != nullptr)
    pending.push_back({&entry, start_.mark, mark});
  else
    entry.seconds += std::chrono::duration<double>(end.wall - start_.wall).count();
  ++entry.calls;
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
  pending.clear();
  entries().clear();
}

}  // namespace comera
