#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

// Faults of the disk, put between the code under test (and libhdf5 and libstdc++) and the system: the test
// program defines write(), fsync(), rename(), … itself, and they count the calls about files in one folder.
namespace comera::faults {

enum class Call : std::uint8_t { open, write, sync, truncate, close, rename, remove };
inline constexpr int calls = 7;
const char* name_of(Call call);

enum class Kind : std::uint8_t {
  none,
  error,            // the call fails with `code` once
  error_from_then,  // and all later ones of its sort, as on a full disk
  short_write,      // writes a part
  interrupted,      // EINTR, once
  killed,           // the process ends before the call
  power_loss,       // the machine stops before the call: power_loss.h
};

struct Fault {
  Kind kind = Kind::none;
  Call call = Call::write;
  std::int64_t number = 0;           // of that call, from 1; beyond the last one: at the end, see finish()
  int code = 0;                      // errno
  std::uint64_t seed = 0;            // of what a power loss leaves
  std::filesystem::path image = {};  // where a power loss puts it
};

inline constexpr int killed_status = 99;

// While an object lives, calls about files in `folder` are counted and the fault happens. One at a time.
class Injection {
 public:
  Injection(const std::filesystem::path& folder, const Fault& fault);
  ~Injection();
  Injection(const Injection&) = delete;
  Injection& operator=(const Injection&) = delete;

  std::int64_t count(Call call) const;
  bool happened() const;
  // For a power loss that comes after all is done: it happens here, and this does not return.
  [[noreturn]] void lose_power();
};

// Runs `work` in a process of its own, with what it writes to the standard error; the exit status, or 128 +
// the signal that ended it.
struct Ended {
  int status = 0;
  std::string errors;
};
Ended run_forked(const std::function<int()>& work);

// Descriptors that this process has open.
int open_descriptors();

// One more line for the table that is printed at the end: what was done, under which fault, and how it ended.
void record(const std::string& work, const std::string& fault, const std::string& outcome);

// How many faults of each sort: few with the preset qa, all with COMERA_FAULTS=all (ctest --preset
// faults).
int rounds(int all);

}  // namespace comera::faults
