#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// Host time by name, for the table that says where a step goes. Off by default: a scope then costs one load.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
};

void profile_enable(bool enabled);
std::vector<ProfileEntry> profile_entries();  // longest first
void profile_reset();

class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name) : name_(name), enabled_(enabled()) {
    if (enabled_) start_ = std::chrono::steady_clock::now();
  }
  ~ProfileScope() {
    if (enabled_) record(name_, std::chrono::steady_clock::now() - start_);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  static bool enabled();
  static void record(std::string_view name, std::chrono::steady_clock::duration time) noexcept;

  std::string_view name_;
  bool enabled_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace comera
