#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// What is done at least: floating-point operations, and bytes moved to and from memory.
struct Work {
  double flops = 0;
  double bytes = 0;

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    return *this;
  }
};

// Host time by name, for the table that says where a step goes. Off by default: a scope then costs one load.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads of the process
  Work work;
};

void profile_enable(bool enabled);
std::vector<ProfileEntry> profile_entries();  // longest first
void profile_reset();

class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name, const Work& work = {})
      : name_(name), work_(work), enabled_(enabled()) {
    if (enabled_) start_ = now();
  }
  ~ProfileScope() {
    if (enabled_) record();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  static bool enabled();

 private:
  struct Times {
    std::chrono::steady_clock::time_point wall;
    double cpu_seconds = 0;
  };
  static Times now() noexcept;
  void record() const noexcept;

  std::string_view name_;
  Work work_;
  bool enabled_;
  Times start_;
};

}  // namespace comera
