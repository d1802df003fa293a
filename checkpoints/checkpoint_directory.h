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
  // Creates the directory if necessary, and removes the leftovers of a process that was killed while saving.
  // Only one process may use a directory (RunDirectory ensures it).
  CheckpointDirectory(std::filesystem::path directory, std::int64_t keep);

  // Writes the checkpoint with `fill`, then points `latest` at it, then removes all but the newest `keep`.
  // Checkpoints of later steps belong to an abandoned continuation and are removed, too. On failure (a full
  // disk) the earlier checkpoints and `latest` are unchanged.
  std::filesystem::path save(std::int64_t step, const std::function<void(CheckpointWriter&)>& fill);

  // Renames a damaged checkpoint to NAME.damaged, so that it no longer counts as one, and returns that name.
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
  newest_to_read,  // the same for readers that do not resume the run: the error names an older file
  newest_valid,    // the newest valid one; damaged newer ones are reported
};

struct RefusedCheckpoint {
  std::filesystem::path path;
  std::string reason;  // begins with the path
};

struct FoundCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::vector<RefusedCheckpoint> refused;  // newer ones, newest first
  // A newer checkpoint that `latest` names but that is missing and was not set aside; empty: none.
  std::filesystem::path missing = {};
};

// Nothing if there is no checkpoint at all; Error if there are some but none is usable. The result has been
// fully verified. With newest_to_read, a run that saves meanwhile does not remove it until this process ends.
std::optional<FoundCheckpoint> find_latest(const std::filesystem::path& directory, ResumeMode mode);

}  // namespace comera
