#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"

namespace comera {

// The checkpoints of one run: step-00000123.h5, one per saved step, and `latest`, a line with the newest
// one's name.
class CheckpointDirectory {
 public:
  // Makes the directory if need be, and removes what a process that was killed while saving left there: only
  // one process may use a directory (RunDirectory sees to it).
  CheckpointDirectory(std::filesystem::path directory, std::int64_t keep);

  // Writes what `fill` puts into the checkpoint, then points `latest` at it, then removes all but the newest
  // `keep`. A later step than this one belongs to a continuation that was given up, and is removed, too.
  // On failure (a full disk) the earlier checkpoints and `latest` are as before.
  std::filesystem::path save(std::int64_t step, const std::function<void(CheckpointWriter&)>& fill);

  // Gives a damaged checkpoint the name NAME.damaged, which no longer counts as one, and returns it.
  std::filesystem::path set_aside(const std::filesystem::path& damaged) const;

  std::filesystem::path file_of(std::int64_t step) const;

 private:
  void point_latest_at(const std::filesystem::path& file) const;
  void prune(std::int64_t newest) const;

  std::filesystem::path directory_;
  std::int64_t keep_;
};

// The steps that have a checkpoint, ascending; none when the directory does not exist.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& directory);

enum class ResumeMode : std::uint8_t {
  newest,          // a damaged newest checkpoint is an error
  newest_to_read,  // the same for those who do not go on with the run: the error names an older file
  newest_valid,    // the newest one that is whole; damaged ones before it are reported
};

struct RefusedCheckpoint {
  std::filesystem::path path;
  std::string reason;  // begins with the path
};

struct FoundCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::vector<RefusedCheckpoint> refused;  // newer ones, newest first
  // A newer one that `latest` names, but nobody finds, and nobody has set aside; empty: there is none.
  std::filesystem::path missing = {};
};

// Nothing when there is no checkpoint at all; Error when there are some but none may be used. What is found
// has been verified whole. With newest_to_read, a run that saves meanwhile does not remove it until this
// process ends.
std::optional<FoundCheckpoint> find_latest(const std::filesystem::path& directory, ResumeMode mode);

}  // namespace comera
