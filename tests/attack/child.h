#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

// Starts programs in bad surroundings, watches them and ends them.
namespace comera::attack {

namespace fs = std::filesystem;

// What a program's stdout or stderr is.
enum class Stream : std::uint8_t {
  kept,    // a pipe that is read
  full,    // /dev/full
  closed,  // no descriptor at all
  broken,  // a pipe without a reader
};

struct Limits {
  double seconds = 20;              // then it is killed
  std::int64_t memory = 2LL << 30;  // bytes of address space; 0: no limit
  std::int64_t file_bytes = -1;     // -1: no limit
  bool file_signal = false;         // whether exceeding file_bytes raises SIGXFSZ, or is only an error
  std::int64_t descriptors = -1;
};

struct Call {
  std::vector<std::string> words;             // the program and its arguments
  fs::path folder;                            // where it runs
  std::vector<std::string> environment = {};  // NAME=VALUE beside our own
  Limits limits = {};
  Stream out = Stream::kept, err = Stream::kept;
  bool in_closed = false;  // no stdin at all, else /dev/null
  bool traced = false;     // by end_struck()
};

// A signal at one of a program's calls to the system that change files: those that make, write, sync, rename
// or remove them. Which one it is does not depend on how fast the machine is.
struct Strike {
  int change = 0;      // at the n-th; 0: never
  bool after = false;  // when the call has been done, or instead of it
  int signal = 0;
};

struct Ending {
  int code = -1;  // exit code; -1: it was ended by a signal
  int signal = 0;
  bool late = false;  // it did not end within its time
  double seconds = 0;
  std::string out, err;  // at most 1 MiB of each
};

// As a shell takes it.
std::string text_of(const Call& call);

// Thrown where the attack itself is to stop (Ctrl-C, SIGTERM): every child is ended then.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};
// From a signal's handler, too.
void interrupt();
bool interrupted();

class Child {
 public:
  explicit Child(const Call& call);
  ~Child();  // ends it and all that it has started
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Reads its output for this long, or until it has ended. Returns whether it has.
  bool wait_for(double seconds);
  bool running() { return !wait_for(0); }
  void send(int signal) const;
  // Waits until it ends, at most until its time is over.
  Ending end();
  // The same for a traced program, which is struck during its work. changes: number of such calls that it has
  // begun.
  Ending end_struck(const Strike& strike, int* changes = nullptr);
  // Processes that it has started, and those that they have.
  std::vector<pid_t> descendants() const;

 private:
  void read_streams(int timeout_ms);
  void end_all();
  void ended(int status);

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  bool ended_ = false;
  Limits limits_;
  Ending ending_;
  std::chrono::steady_clock::time_point begin_;
};

inline Ending run(const Call& call) { return Child(call).end(); }

// Ends orphans of programs that were ended. Call it only when no child is needed any more.
void end_orphans();

}  // namespace comera::attack
