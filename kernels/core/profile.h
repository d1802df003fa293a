#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// Minimal work: floating-point operations, and bytes of memory traffic.
struct Work {
  double flops = 0;
  double bytes = 0;
  double inner = 0;       // elements of a tensor between two products that a fused kernel does not store
  double wide_flops = 0;  // those of `flops` whose operands are not bfloat16

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    inner += other.inner;
    wide_flops += other.wide_flops;
    return *this;
  }
};

// Time by name, for the table of where a step's time goes. Off by default: a scope then costs one load.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads of the process
  Work work;
};

// Time stamps in the work of a device, whose calls return before the work is done.
class ProfileClock {
 public:
  ProfileClock() = default;
  virtual ~ProfileClock() = default;
  ProfileClock(const ProfileClock&) = delete;
  ProfileClock& operator=(const ProfileClock&) = delete;
  // Adds a time stamp after the work given so far. Failures are reported when it is read.
  virtual std::size_t mark() noexcept = 0;
  // Waits for both time stamps.
  virtual double seconds_between(std::size_t from, std::size_t to) = 0;
};

// Measures times as long as it exists: with a clock those of the device, given its work by this thread alone,
// read at the end; otherwise the host's. One at a time.
class Profiling {
 public:
  explicit Profiling(ProfileClock* clock = nullptr);
  ~Profiling() { drop(); }
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;
  // Waits for the device. Times not read by then are lost.
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
