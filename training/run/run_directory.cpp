#include "training/run/run_directory.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "kernels/core/check.h"
#include "recipes/recipe.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/small_file.h"
#include "training/logging/metrics.h"

namespace comera {

namespace {

// " (process 1234)", as written into the file by the holder of the lock.
std::string holder_of(int lock) {
  char text[32] = {};
  const ssize_t got = pread(lock, text, sizeof(text) - 1, 0);
  const std::string pid(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const auto digits = pid.find_first_not_of("0123456789");
  return digits == 0 || pid.empty() ? "" : fmt::format(" (process {})", pid.substr(0, digits));
}

bool holds(const std::filesystem::path& file, std::string_view bytes) {
  std::error_code code;
  const auto size = static_cast<std::int64_t>(bytes.size());
  return std::filesystem::is_regular_file(file, code) &&
         static_cast<std::int64_t>(std::filesystem::file_size(file, code)) == size &&
         storage::read_small_file(file, size, "a tokenizer") == bytes;
}

// A process id, or the remains of one after a power failure or a short write, with a single hard link.
bool is_lock(int file) {
  struct stat status = {};
  char text[32] = {};
  const ssize_t got =
      fstat(file, &status) == 0 && status.st_nlink <= 1 ? pread(file, text, sizeof text, 0) : -1;
  if (got < 0 || got == sizeof text) return false;
  return std::string_view(text, static_cast<std::size_t>(got))
             .find_first_not_of(std::string_view("0123456789\n\0", 12)) == std::string_view::npos;
}

}  // namespace

void refuse_run(const std::filesystem::path& path) {
  throw UsageError(
      fmt::format("{}: already holds a run; choose another --output, or continue the run with --resume auto",
                  path.string()));
}

RunDirectory::RunDirectory(std::filesystem::path path, RunMode mode)
    : path_(std::move(path)), new_folders_(path_) {
  if (mode == RunMode::resume && !holds_run())
    throw UsageError(fmt::format("{}: holds no run to resume", path_.string()));
  storage::check_own(metrics());  // now instead of after the data have been read
  lock();
  try {
    // Leftovers of a killed process. No other process writes a run's own files; other files may belong to a
    // running command. Leftovers in checkpoints() are removed by the code that writes there.
    for (const auto& file : {recipe(), tokenizer(), best(), nonfinite(), collapsed(), saved()})
      storage::remove_left_overs_of(file);
    storage::remove_left_overs_of_ended_in(path_);
    storage::remove_left_overs_of_ended_in(milestones());
    resumes_ = holds_run();
    if (mode == RunMode::fresh && resumes_) refuse_run(path_);
    if (!resumes_) refuse_files_of_others();
    own_checkpoints_ = !storage::is_taken(checkpoints());
  } catch (...) {
    remove_own();
    ::close(lock_);
    throw;
  }
}

// A run writes its recipe after creating its folder of checkpoints: a recipe alone belongs to the user.
void RunDirectory::refuse_files_of_others() const {
  if (storage::is_taken(recipe()))
    throw UsageError(
        fmt::format("{}: does not belong to a run, and a run in this folder would overwrite it; move it, or "
                    "choose another --output",
                    recipe().string()));
  if (storage::is_taken(checkpoints() / "latest"))
    throw UsageError(
        fmt::format("{}: does not belong to a run, since there is no checkpoint beside it, and a run would "
                    "overwrite it; move it, or choose another --output",
                    (checkpoints() / "latest").string()));
}

void RunDirectory::begin_anew() {
  resumes_ = false;
  if (storage::is_taken(metrics()) && !holds_metrics(metrics()))
    throw UsageError(
        fmt::format("{}: does not hold a run's metrics, and a run in this folder would overwrite it; move "
                    "it, or choose another --output",
                    metrics().string()));
  if (!storage::is_taken(recipe())) return;
  try {
    load_recipe(recipe());
  } catch (const Error&) {
    refuse_files_of_others();
  }
}

void RunDirectory::write_tokenizer(std::string_view bytes) const {
  if (!resumes_ && storage::is_taken(tokenizer()) && !holds(tokenizer(), bytes))
    throw UsageError(
        fmt::format("{}: differs from data.tokenizer, and a run in this folder would overwrite it; move it, "
                    "or choose another --output",
                    tokenizer().string()));
  storage::keep_file_durably(tokenizer(), bytes);
}

void RunDirectory::make_process_logs() {
  own_process_logs_ = !storage::is_taken(process_logs());
  storage::create_directories_durably(process_logs());
}

RunDirectory::RunDirectory(std::filesystem::path path, bool resumes)
    : path_(std::move(path)), resumes_(resumes) {}

RunDirectory::~RunDirectory() {
  if (lock_ < 0) return;
  try {
    if (!holds_run()) remove_own();
  } catch (const Error&) {
    // Its content is unknown: nothing is removed.
  }
  ::close(lock_);
}

void RunDirectory::remove_own() const {
  std::error_code ignored;
  if (own_checkpoints_) std::filesystem::remove(checkpoints(), ignored);  // if it is empty
  if (own_process_logs_) std::filesystem::remove_all(process_logs(), ignored);
  if (own_lock_) std::filesystem::remove(path_ / "lock", ignored);
}

// False if another process has removed it since it was opened.
bool RunDirectory::is_locked_file(const std::filesystem::path& file) const {
  struct stat locked = {}, named = {};
  return fstat(lock_, &locked) == 0 && stat(file.c_str(), &named) == 0 && locked.st_ino == named.st_ino;
}

void RunDirectory::lock() {
  const std::filesystem::path file = path_ / "lock";
  own_lock_ = !storage::is_taken(file);
  lock_ = storage::FileDescriptor::open_own(file).release();
  if (!is_lock(lock_)) {
    ::close(lock_);
    throw UsageError(
        fmt::format("{}: is not a run's lock, and a run in this folder would overwrite it; move it, or "
                    "choose another --output",
                    file.string()));
  }
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
  // The id is used only by the message above, so a failure does not matter.
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(lock_, 0) == 0 && pwrite(lock_, pid.data(), pid.size(), 0) < 0) return;
}

bool RunDirectory::holds_run() const {
  for (const auto& file : {metrics(), saved(), nonfinite(), collapsed()})
    if (storage::exists(file)) return true;
  if (any_best() || !checkpoint_steps(checkpoints()).empty()) return true;
  return storage::exists(recipe()) && storage::exists(checkpoints());
}

std::optional<std::filesystem::path> RunDirectory::any_best() const {
  for (const std::filesystem::path& file : storage::entries_of(path_))
    if (const std::string name = file.filename().string();
        name == best().filename() || (name.starts_with("best-phase-") && name.ends_with(".h5")))
      return file;
  return std::nullopt;
}

bool RunDirectory::set_best_aside(std::int64_t phase) const {
  if (!storage::exists(best())) return false;
  storage::rename_durably(best(), path_ / fmt::format("best-phase-{}.h5", phase));
  return true;
}

}  // namespace comera
