// The functions of the C library that change files, as the program, libstdc++ and libhdf5 call them. Output
// through stdio (messages) does not come here. They call the kernel directly, so that nothing has to be
// looked up.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "tests/faults/faults.h"
#include "tests/faults/power_loss.h"

namespace comera::faults {
namespace {

namespace fs = std::filesystem;

struct State {
  std::string folder;
  Fault fault;
  std::int64_t counts[calls] = {};
  bool happened = false;
  std::unique_ptr<Disk> disk;
};

std::unique_ptr<State> state;
std::recursive_mutex mutex;
bool inside = false;  // the calls of this file itself

std::string path_of(int descriptor) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path);
  return {path, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

std::string absolute(const char* path) {
  return path && path[0] == '/' ? path : fs::absolute(path ? path : "").string();
}

// One call about a file of the folder. Not counted: all others.
class Visit {
 public:
  Visit(Call call, const std::string& path) : guard_(mutex) {
    if (!state || inside || !path.starts_with(state->folder)) return;
    active_ = true;
    Fault& fault = state->fault;
    const std::int64_t number = ++state->counts[static_cast<int>(call)];
    const bool here = fault.call == call && number == fault.number;
    if (fault.kind == Kind::error_from_then && fault.call == call && number >= fault.number) {
      state->happened = true;
      action_ = Kind::error;
    } else if (here && fault.kind != Kind::none) {
      state->happened = true;
      action_ = fault.kind;
    }
    if (action_ == Kind::killed) _exit(killed_status);
    if (state->disk) {
      inside = true;
      if (call == Call::rename || call == Call::remove || call == Call::open)
        state->disk->look(fs::path(path).parent_path());
      if (action_ == Kind::power_loss) end();
      inside = false;
    }
  }

  [[noreturn]] static void end() {
    inside = true;
    state->disk->look(state->folder);
    state->disk->leave(state->fault.image, state->fault.seed);
    _exit(killed_status);
  }

  // -1 with errno set if the call is to fail.
  bool fails() const {
    if (action_ == Kind::error) errno = state->fault.code;
    if (action_ == Kind::interrupted) errno = EINTR;
    return action_ == Kind::error || action_ == Kind::interrupted;
  }
  std::size_t bytes(std::size_t wanted) const {
    return action_ == Kind::short_write ? std::max<std::size_t>(wanted / 3, wanted > 0) : wanted;
  }
  // For the disk that loses power, if that is being tested.
  template <class Note>
  void note(Note&& take) const {
    if (!active_ || !state->disk) return;
    inside = true;
    take(*state->disk);
    inside = false;
  }

 private:
  std::lock_guard<std::recursive_mutex> guard_;
  bool active_ = false;
  Kind action_ = Kind::none;
};

long plain_open(const char* path, int flags, mode_t mode) {
  return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open_file(const char* path, int flags, mode_t mode) {
  if (!state || (flags & (O_CREAT | O_WRONLY | O_RDWR)) == 0)
    return static_cast<int>(plain_open(path, flags, mode));
  const std::string name = absolute(path);
  const Visit visit(Call::open, name);
  if (visit.fails()) return -1;
  const int file = static_cast<int>(plain_open(path, flags, mode));
  const int reason = errno;
  visit.note([&](Disk& disk) { disk.look(fs::path(name).parent_path()); });
  errno = reason;
  return file;
}

int sync_descriptor(int descriptor) {
  if (!state) return static_cast<int>(syscall(SYS_fsync, descriptor));
  const std::string path = path_of(descriptor);
  const Visit visit(Call::sync, path);
  if (visit.fails()) return -1;
  visit.note([&](Disk& disk) {
    if (fs::is_directory(path))
      disk.sync_directory(path);
    else
      disk.sync_file(path);
  });
  return 0;  // the machine that is tried on does not lose its power
}

ssize_t write_at(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  if (!state) return syscall(SYS_pwrite64, descriptor, data, bytes, offset);
  const Visit visit(Call::write, path_of(descriptor));
  if (visit.fails()) return -1;
  return syscall(SYS_pwrite64, descriptor, data, visit.bytes(bytes), offset);
}

int remove_name(const char* path) {
  if (!state) return static_cast<int>(syscall(SYS_unlink, path));
  const std::string name = absolute(path);
  const Visit visit(Call::remove, name);
  if (visit.fails()) return -1;
  visit.note([&](Disk& disk) { disk.forget(name); });
  const int result = static_cast<int>(syscall(SYS_unlink, path));
  const int reason = errno;
  visit.note([&](Disk& disk) { disk.look(fs::path(name).parent_path()); });
  errno = reason;
  return result;
}

}  // namespace

Injection::Injection(const fs::path& folder, const Fault& fault) {
  state = std::make_unique<State>();
  state->folder = folder.string();
  state->fault = fault;
  if (fault.kind == Kind::power_loss) {
    inside = true;
    state->disk = std::make_unique<Disk>(folder);
    inside = false;
  }
}
Injection::~Injection() { state.reset(); }
std::int64_t Injection::count(Call call) const { return state->counts[static_cast<int>(call)]; }
bool Injection::happened() const { return state->happened; }
void Injection::lose_power() { Visit::end(); }

const char* name_of(Call call) {
  constexpr const char* names[calls] = {"open", "write", "fsync", "truncate", "close", "rename", "unlink"};
  return names[static_cast<int>(call)];
}

}  // namespace comera::faults

using namespace comera::faults;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_file(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_file(path, flags, mode);
}

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
  if (!state) return syscall(SYS_write, descriptor, data, bytes);
  const Visit visit(Call::write, path_of(descriptor));
  if (visit.fails()) return -1;
  return syscall(SYS_write, descriptor, data, visit.bytes(bytes));
}
ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (!state) return syscall(SYS_writev, descriptor, parts, count);
  const Visit visit(Call::write, path_of(descriptor));
  if (visit.fails()) return -1;
  if (count > 1 && visit.bytes(9) != 9) count = 1;  // a short one
  return syscall(SYS_writev, descriptor, parts, count);
}
ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) {
  return write_at(descriptor, data, bytes, offset);
}
ssize_t pwrite64(int descriptor, const void* data, std::size_t bytes, off64_t offset) {
  return write_at(descriptor, data, bytes, offset);
}

int fsync(int descriptor) { return sync_descriptor(descriptor); }
int fdatasync(int descriptor) { return sync_descriptor(descriptor); }

int ftruncate(int descriptor, off_t bytes) noexcept {
  if (!state) return static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes));
  const Visit visit(Call::truncate, path_of(descriptor));
  return visit.fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, descriptor, bytes));
}
int ftruncate64(int descriptor, off64_t bytes) noexcept { return ftruncate(descriptor, bytes); }
int truncate(const char* path, off_t bytes) noexcept {
  if (!state) return static_cast<int>(syscall(SYS_truncate, path, bytes));
  const Visit visit(Call::truncate, absolute(path));
  return visit.fails() ? -1 : static_cast<int>(syscall(SYS_truncate, path, bytes));
}
int truncate64(const char* path, off64_t bytes) noexcept { return truncate(path, bytes); }

int close(int descriptor) {
  if (!state) return static_cast<int>(syscall(SYS_close, descriptor));
  // Whether it was open for writing: only then can closing lose anything.
  const int flags = static_cast<int>(syscall(SYS_fcntl, descriptor, F_GETFL));
  const Visit visit(Call::close, (flags & O_ACCMODE) == O_RDONLY ? "" : path_of(descriptor));
  const int result = static_cast<int>(syscall(SYS_close, descriptor));  // closed, whatever it reports
  return visit.fails() ? -1 : result;
}

int rename(const char* from, const char* to) noexcept {
  if (!state) return static_cast<int>(syscall(SYS_rename, from, to));
  const std::string target = absolute(to);
  const Visit visit(Call::rename, target);
  if (visit.fails()) return -1;
  visit.note([&](Disk& disk) { disk.forget(target); });
  const int result = static_cast<int>(syscall(SYS_rename, from, to));
  const int reason = errno;
  visit.note([&](Disk& disk) { disk.look(fs::path(target).parent_path()); });
  errno = reason;
  return result;
}

int unlink(const char* path) noexcept { return remove_name(path); }
int remove(const char* path) noexcept {
  struct stat status {};
  if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) return rmdir(path);
  return remove_name(path);
}

}  // extern "C"
