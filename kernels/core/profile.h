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

// Time by name, for the table that says where a step goes. Off by default: a scope then costs one load.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads of the process
  Work work;
};

// Moments in the work of a device, whose calls return before that is done.
class ProfileClock {
 public:
  ProfileClock() = default;
  virtual ~ProfileClock() = default;
  ProfileClock(const ProfileClock&) = delete;
  ProfileClock& operator=(const ProfileClock&) = delete;
  // Puts a moment behind the work that was given so far. What fails is told when it is asked for.
  virtual std::size_t mark() noexcept = 0;
  // Waits for both.
  virtual double seconds_between(std::size_t from, std::size_t to) = 0;
};

// Times are taken as long as there is one: with a clock the device's, given its work by this thread alone,
// and waited for at the end; otherwise the host's. One at a time.
class Profiling {
 public:
  explicit Profiling(ProfileClock* clock = nullptr);
  ~Profiling() { drop(); }
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;
  // Waits for the device. Times that nobody waited for are lost.
  void finish();

 private:
  void drop() noexcept;
};
std::vector<ProfileEntry> profile_entries();  // longest first
void profile_reset();

class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name, const Work& work = {})
      : name_(name), work_(work), enabled_(enabled()) {
    if (enabled_) start();
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
    std::size_t mark = 0;
  };
  static Times now();
  void start();
  void record() const noexcept;

  std::string_view name_;
  Work work_;
  bool enabled_;
  Times start_;
};

}  // namespace comera
