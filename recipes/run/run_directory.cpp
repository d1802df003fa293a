#include "recipes/run/run_directory.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "data/durable_file.h"
#include "kernels/core/check.h"

namespace comera {

namespace {

// " (process 1234)", as the holder of a lock wrote it into the file.
std::string holder_of(int lock) {
  char text[32] = {};
  const ssize_t got = pread(lock, text, sizeof(text) - 1, 0);
  const std::string pid(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const auto digits = pid.find_first_not_of("0123456789");
  return digits == 0 || pid.empty() ? "" : fmt::format(" (process {})", pid.substr(0, digits));
}

}  // namespace

RunDirectory::RunDirectory(std::filesystem::path path, RunMode mode)
    : path_(std::move(path)), new_folders_(path_) {
  if (mode == RunMode::resume && !holds_run())
    throw UsageError(fmt::format("{}: holds no run to resume", path_.string()));
  data::check_own(metrics());  // now, and not after the data were read
  data::create_directories_durably(path_);
  lock();
  // Of a process that was killed. What is in checkpoints() is removed by those who write there.
  for (const auto& file : {recipe(), tokenizer(), best(), nonfinite()}) data::remove_left_overs_of(file);
  resumes_ = holds_run();
  if (mode == RunMode::fresh && resumes_) {
    ::close(lock_);
    throw UsageError(
        fmt::format("{}: holds another run; choose another --output, or go on with that run: --resume auto",
                    path_.string()));
  }
}

RunDirectory::RunDirectory(std::filesystem::path path, bool resumes)
    : path_(std::move(path)), resumes_(resumes) {}

RunDirectory::~RunDirectory() {
  if (lock_ < 0) return;
  std::error_code ignored;
  if (!holds_run()) {
    std::filesystem::remove(checkpoints(), ignored);  // if it is empty
    std::filesystem::remove_all(rank_logs(), ignored);
    std::filesystem::remove(path_ / "lock", ignored);
  }
  ::close(lock_);
}

// Not if another process has removed it since it was opened.
bool RunDirectory::is_locked_file(const std::filesystem::path& file) const {
  struct stat locked = {}, named = {};
  return fstat(lock_, &locked) == 0 && stat(file.c_str(), &named) == 0 && locked.st_ino == named.st_ino;
}

void RunDirectory::lock() {
  const std::filesystem::path file = path_ / "lock";
  lock_ = data::FileDescriptor::open_own(file).release();
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string holder = holder_of(lock_);
    ::close(lock_);
    COMERA_CHECK(code == EWOULDBLOCK, "{}: could not lock the directory: {}", path_.string(),
                 std::strerror(code));
    throw Error(fmt::format("{}: is in use by another run{}; wait for it or choose another --output",
                            path_.string(), holder));
  }
  if (!is_locked_file(file)) {
    ::close(lock_);
    throw Error(fmt::format("{}: was in use by another run a moment ago; try again", path_.string()));
  }
  // The id only serves the message above, so that a failure does not matter.
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(lock_, 0) == 0 && pwrite(lock_, pid.data(), pid.size(), 0) < 0) return;
}

bool RunDirectory::holds_run() const {
  std::error_code code;
  return std::filesystem::exists(recipe(), code) || std::filesystem::exists(metrics(), code) ||
         !checkpoint_steps(checkpoints()).empty();
}

bool RunDirectory::set_best_aside(std::int64_t phase) const {
  std::error_code code;
  if (!std::filesystem::exists(best(), code)) return false;
  const std::filesystem::path aside = path_ / fmt::format("best-phase-{}.h5", phase);
  std::filesystem::rename(best(), aside, code);
  COMERA_CHECK(!code, "{}: could not be renamed to {}: {}", best().string(), aside.filename().string(),
               code.message());
  return true;
}

}  // namespace comera
