#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "tests/faults/faults.h"

namespace comera::faults {

// A sort of fault, and how often it is tried with COMERA_FAULTS=all.
struct Plan {
  const char* name;
  Kind kind;
  Call call;
  int code;
  int times;

  // Whether the work may continue without the caller noticing.
  bool harmless() const { return kind == Kind::short_write || kind == Kind::interrupted; }
  bool ends_process() const { return kind == Kind::killed || kind == Kind::power_loss; }
};

inline const std::vector<Plan>& plans() {
  static const std::vector<Plan> all = {
      {"no space (write)", Kind::error_from_then, Call::write, ENOSPC, 12},
      {"no space (open)", Kind::error_from_then, Call::open, ENOSPC, 4},
      {"EIO (write)", Kind::error, Call::write, EIO, 12},
      {"EIO (fsync)", Kind::error, Call::sync, EIO, 6},
      {"EIO (truncate)", Kind::error, Call::truncate, EIO, 4},
      {"EIO (close)", Kind::error, Call::close, EIO, 4},
      {"EIO (rename)", Kind::error, Call::rename, EIO, 4},
      {"EACCES (open)", Kind::error, Call::open, EACCES, 4},
      {"EIO (unlink)", Kind::error, Call::remove, EIO, 3},
      {"short write", Kind::short_write, Call::write, 0, 10},
      {"EINTR (write)", Kind::interrupted, Call::write, EINTR, 10},
      {"EINTR (fsync)", Kind::interrupted, Call::sync, EINTR, 4},
      {"killed (write)", Kind::killed, Call::write, 0, 8},
      {"killed (rename)", Kind::killed, Call::rename, 0, 4},
      {"killed (unlink)", Kind::killed, Call::remove, 0, 4},
      {"power loss (write)", Kind::power_loss, Call::write, 0, 10},
      {"power loss (fsync)", Kind::power_loss, Call::sync, 0, 10},
      {"power loss (rename)", Kind::power_loss, Call::rename, 0, 6},
      {"power loss (unlink)", Kind::power_loss, Call::remove, 0, 6},
      // After everything was reported as done: unsynced changes, including renames, are gone.
      {"power loss (after)", Kind::power_loss, Call::close, 0, 8},
  };
  return all;
}

inline bool is_after(const Plan& plan) { return plan.kind == Kind::power_loss && plan.call == Call::close; }

// The faults of one plan, each at one of the `count` calls of its sort that the work makes without a fault:
// first and last, and others between them.
inline std::vector<Fault> faults_of(const Plan& plan, std::int64_t count, std::uint64_t seed) {
  std::vector<Fault> faults;
  if (count == 0 && !is_after(plan)) return faults;
  std::mt19937_64 random(seed);
  const int times = rounds(plan.times);
  for (int i = 0; i < times; ++i) {
    Fault fault{.kind = plan.kind, .call = plan.call, .code = plan.code, .seed = random()};
    const std::int64_t any = 1 + static_cast<std::int64_t>(
                                     random() % static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1)));
    fault.number = is_after(plan) ? INT64_MAX : i == 0 ? 1 : i == 1 ? count : any;
    faults.push_back(fault);
  }
  return faults;
}

// One line that names a file of the folder, and the cause where it is the system's.
inline bool is_clear(const std::string& message, const std::string& folder, const Plan& plan) {
  const bool named = message.find(folder) != message.npos;
  const bool reason = message.find(std::strerror(plan.code)) != message.npos;
  return named && reason && message.find('\n') == message.npos;
}

}  // namespace comera::faults
