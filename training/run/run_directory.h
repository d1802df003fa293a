#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "storage/durable_file.h"
#include "storage/new_folders.h"

namespace comera {

enum class RunMode : std::uint8_t {
  fresh,      // the directory must not hold a run
  resume,     // it must
  automatic,  // resumes when it holds a run
};

// A run's own directory: recipe.toml, metrics.jsonl, checkpoints/, and what else belongs to it. It is locked
// as long as the object lives; the system releases the lock of a process that was killed. A directory that
// holds no run at the end is removed, if it was made here; of what stood there before, nothing is.
class RunDirectory {
 public:
  // Makes the directory if need be. Throws UsageError when the directory holds a run already (fresh) or none
  // (resume), or holds no run but a file that a run would write over, and Error when another process uses it,
  // with that process's id.
  RunDirectory(std::filesystem::path path, RunMode mode);
  // Of a run that the first process of the job owns: not locked, nothing is made or
  // removed.
  RunDirectory(std::filesystem::path path, bool resumes);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  bool resumes() const { return resumes_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path tokenizer() const { return path_ / "tokenizer.model"; }
  std::filesystem::path best() const { return path_ / "best.h5"; }
  // A model that went wrong, kept to be looked at.
  std::filesystem::path nonfinite() const { return path_ / "nonfinite.h5"; }
  std::filesystem::path collapsed() const { return path_ / "collapsed.h5"; }
  // Says that the run has saved checkpoints.
  std::filesystem::path saved() const { return path_ / "saved"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  // Those that are never removed.
  std::filesystem::path milestones() const { return path_ / "milestones"; }
  std::filesystem::path process_logs() const { return path_ / "processes"; }  // of a job of several processes

  // To be called when a run that was asked to be resumed has no checkpoint: from now on it begins. UsageError
  // if what is there is not what such a run leaves, but somebody else's that would be written over.
  void begin_anew();

  // Makes process_logs().
  void make_process_logs();

  // best.h5, or best-phase-N.h5, if there is one.
  std::optional<std::filesystem::path> any_best() const;
  // Gives best.h5 the name best-phase-N.h5, after the phase that it is of. False if there is none.
  bool set_best_aside(std::int64_t phase) const;

  // From now on the directory holds a run. Atomic, and nothing if the file says the same already.
  void write_recipe(std::string_view toml) const { storage::keep_file_durably(recipe(), toml); }
  // UsageError if a run that begins would write over a file of the user's.
  void write_tokenizer(std::string_view bytes) const;

 private:
  void lock();
  void refuse_files_of_others() const;
  void remove_own() const;
  bool is_locked_file(const std::filesystem::path& file) const;
  bool holds_run() const;

  std::filesystem::path path_;
  std::optional<storage::NewFolders> new_folders_;
  int lock_ = -1;
  bool resumes_ = false;
  // Whether they are this object's, to be removed with it if no run begins.
  bool own_lock_ = false, own_process_logs_ = false, own_checkpoints_ = false;
};

}  // namespace comera
