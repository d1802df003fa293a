#include "kernels/core/profile.h"

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

void ProfileScope::record(std::string_view name, std::chrono::steady_clock::duration time) noexcept {
  const std::lock_guard lock(mutex);
  auto found = entries().find(name);
  if (found == entries().end()) found = entries().emplace(name, ProfileEntry{std::string(name)}).first;
  ++found->second.calls;
  found->second.seconds += std::chrono::duration<double>(time).count();
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
