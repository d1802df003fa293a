#include "checkpoints/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <utility>

#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/small_file.h"

namespace comera {

namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view suffix = ".h5";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:08}{}", prefix, step, suffix); }

std::optional<std::int64_t> step_of_name(const std::string& name) {
  std::int64_t step = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  return name == name_of_step(step) ? std::optional(step) : std::nullopt;
}

// Throws Error if the file is unusable.
void verify(const std::filesystem::path& file) { CheckpointReader(file).verify(); }

bool is_whole(const std::filesystem::path& file) {
  try {
    verify(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The remedy if the newest checkpoint is damaged.
std::string advice(const std::filesystem::path& directory, const std::vector<std::int64_t>& steps,
                   ResumeMode mode) {
  if (steps.size() < 2)
    return mode == ResumeMode::newest ? "; there is no older one: start the run again with another --output"
                                      : "; there is no older one";
  if (mode == ResumeMode::newest) return "; --use-older-checkpoint resumes from the one before";
  for (auto step = steps.rbegin() + 1; step != steps.rend(); ++step)
    if (const std::filesystem::path file = directory / name_of_step(*step); is_whole(file))
      return fmt::format("; name an older one instead: {}", file.string());
  return fmt::format("; nor can any of the {} older ones", steps.size() - 1);
}

// Readers lock a file, so that it is kept; a process that removes a file locks it, too.
class FileLock {
 public:
  FileLock(const std::filesystem::path& file, int kind)
      : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat opened {
    }, named{};
    holds_ = descriptor_ >= 0 && (flock(descriptor_, kind | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
             fstat(descriptor_, &opened) == 0 && stat(file.c_str(), &named) == 0 &&
             opened.st_ino == named.st_ino;
  }
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileLock(FileLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), holds_(other.holds_) {}
  FileLock& operator=(FileLock&&) = delete;
  // False: another process holds it, or it is gone. (A file system without locks excludes no process.)
  bool holds() const { return holds_; }

 private:
  int descriptor_;
  bool holds_ = false;
};

// Until this process ends, a run that saves meanwhile does not remove the file. False if it is gone.
bool hold(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::vector<FileLock> held;
  FileLock lock(file, LOCK_SH);
  if (!lock.holds()) return false;
  const std::scoped_lock guard(mutex);
  held.push_back(std::move(lock));
  return true;
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(std::filesystem::path directory, std::int64_t keep)
    : directory_(std::move(directory)), keep_(keep) {
  COMERA_CHECK(keep_ >= 1, "at least one checkpoint must be kept, not {}", keep_);
  storage::create_directories_durably(directory_);
  storage::remove_left_overs_in(directory_);
  // Removes the leftovers of versions that wrote NAME.tmp.
  std::error_code ignored;
  for (const std::filesystem::path& file : storage::entries_of(directory_, ignored))
    if (file.extension() == ".tmp" && (file.stem() == "latest" || step_of_name(file.stem().string())))
      std::filesystem::remove(file, ignored);
  // A process that was killed between saving and this step leaves `latest` outdated.
  if (const std::vector<std::int64_t> steps = checkpoint_steps(directory_); !steps.empty())
    point_latest_at(file_of(steps.back()));
}

void CheckpointDirectory::point_latest_at(const std::filesystem::path& file) const {
  storage::keep_file_durably(directory_ / "latest", file.filename().string() + "\n");
}

std::filesystem::path CheckpointDirectory::file_of(std::int64_t step) const {
  return directory_ / name_of_step(step);
}

std::filesystem::path CheckpointDirectory::save(std::int64_t step,
                                                const std::function<void(CheckpointWriter&)>& fill) {
  COMERA_CHECK(step >= 0, "a checkpoint's step cannot be {}", step);
  std::filesystem::path path = file_of(step);
  CheckpointWriter writer(path);
  fill(writer);
  writer.commit();
  point_latest_at(path);
  prune(step);
  return path;
}

std::filesystem::path CheckpointDirectory::set_aside(const std::filesystem::path& damaged) const {
  std::filesystem::path aside = damaged;
  aside += ".damaged";
  storage::rename_durably(damaged, aside);
  return aside;
}

void CheckpointDirectory::prune(std::int64_t newest) const {
  std::vector<std::int64_t> steps = checkpoint_steps(directory_);
  std::error_code ignored;  // a leftover is harmless
  const std::size_t given_up = std::erase_if(steps, [&](std::int64_t step) {
    return step > newest && std::filesystem::remove(file_of(step), ignored);
  });
  // Older checkpoints that reappear after a power failure are harmless; later ones would be mistaken for the
  // newest.
  if (given_up > 0) storage::sync_directory(directory_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < steps.size(); ++i)
    // If a reader holds it, it is removed next time.
    if (const FileLock lock(file_of(steps[i]), LOCK_EX); lock.holds())
      std::filesystem::remove(file_of(steps[i]), ignored);
}

std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : storage::entries_of(directory))
    if (const auto step = step_of_name(entry.filename().string())) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

namespace {

// The checkpoint that `latest` names, if it is later than the one found and missing.
std::filesystem::path missing_after(const std::filesystem::path& directory, std::int64_t found) {
  std::error_code code;
  const std::filesystem::path latest = directory / "latest";
  constexpr std::uintmax_t longest = 4096;  // longer content is not a name
  if (!std::filesystem::is_regular_file(latest, code) || std::filesystem::file_size(latest, code) > longest)
    return {};
  std::string name = storage::read_small_file(latest, longest, "the name of a checkpoint");
  name.erase(std::min(name.find('\n'), name.size()));
  const std::optional<std::int64_t> step = step_of_name(name);
  std::filesystem::path file = directory / name;
  if (!step || *step <= found || storage::exists(file) || storage::exists(file.string() + ".damaged"))
    return {};
  return file;
}

}  // namespace

namespace {

// The newest checkpoint of a run that may be saving and removing checkpoints meanwhile.
std::optional<FoundCheckpoint> find_newest_to_read(const std::filesystem::path& directory) {
  constexpr int most_tries = 1000;
  for (int tries = 0;; ++tries) {
    const std::vector<std::int64_t> steps = checkpoint_steps(directory);
    if (steps.empty()) return std::nullopt;
    FoundCheckpoint found{
        .path = directory / name_of_step(steps.back()), .step = steps.back(), .refused = {}};
    try {
      if (!hold(found.path) && tries < most_tries) continue;
      verify(found.path);
      found.missing = missing_after(directory, steps.back());
      return found;
    } catch (const Error& error) {
      if (!storage::exists(found.path) && tries < most_tries) continue;
      throw Error(fmt::format("{}; the newest checkpoint cannot be used{}", error.what(),
                              advice(directory, steps, ResumeMode::newest_to_read)));
    }
  }
}

}  // namespace

std::optional<FoundCheckpoint> find_latest(const std::filesystem::path& directory, ResumeMode mode) {
  if (mode == ResumeMode::newest_to_read) return find_newest_to_read(directory);
  const std::vector<std::int64_t> steps = checkpoint_steps(directory);
  FoundCheckpoint found;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    found.path = directory / name_of_step(*step);
    found.step = *step;
    try {
      verify(found.path);
      found.missing = missing_after(directory, steps.back());
      return found;
    } catch (const Error& error) {
      if (mode != ResumeMode::newest_valid)
        throw Error(fmt::format("{}; the newest checkpoint cannot be used{}", error.what(),
                                advice(directory, steps, mode)));
      found.refused.push_back({found.path, error.what()});
    }
  }
  if (steps.empty()) return std::nullopt;
  throw Error(fmt::format("{}: none of the {} checkpoints can be used; the newest: {}", directory.string(),
                          steps.size(), found.refused.front().reason));
}

}  // namespace comera
