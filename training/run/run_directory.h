#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "storage/durable_file.h"
#include "storage/new_folders.h"

namespace comera {

enum class RunMode : std::uint8_t {
  fresh,      // the directory must not contain a run
  resume,     // it must contain a run
  automatic,  // resumes if it contains a run
};

// Throws the UsageError for a run where a new one should begin.
[[noreturn]] void refuse_run(const std::filesystem::path& path);

// A run's directory: recipe.toml, metrics.jsonl, checkpoints/, and the run's other files. It is locked as
// long as the object lives; the system releases the lock of a killed process. A directory that contains no
// run at the end is removed if it was created here; nothing that existed before is removed.
class RunDirectory {
 public:
  // Creates the directory if necessary. Throws UsageError if the directory already contains a run (fresh) or
  // contains none (resume), or contains no run but a file that a run would overwrite. Throws Error, with the
  // process id, if another process uses it.
  RunDirectory(std::filesystem::path path, RunMode mode);
  // For a run that process 0 of the job owns: nothing is locked, created or removed.
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
  // When and where it was started and resumed.
  std::filesystem::path starts() const { return path_ / "starts.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  // A diverged model, kept for inspection.
  std::filesystem::path nonfinite() const { return path_ / "nonfinite.h5"; }
  std::filesystem::path collapsed() const { return path_ / "collapsed.h5"; }
  // The marker that the run has saved checkpoints.
  std::filesystem::path saved() const { return path_ / "saved"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  // Checkpoints that are never removed.
  std::filesystem::path milestones() const { return path_ / "milestones"; }
  std::filesystem::path process_logs() const { return path_ / "processes"; }  // with several processes

  // Called if a run to be resumed has no checkpoint: from now on it is a new run. UsageError if the directory
  // contains files that such a run does not leave, which would be overwritten.
  void begin_anew();

  // Makes process_logs().
  void make_process_logs();

  // best.h5, or best-phase-N.h5, if there is one.
  std::optional<std::filesystem::path> any_best() const;
  // Renames best.h5 to best-phase-N.h5, after its phase. False if there is none.
  bool set_best_aside(std::int64_t phase) const;

  // From now on the directory holds a run. Atomic, and nothing if the file says the same already.
  void write_recipe(std::string_view toml) const { storage::keep_file_durably(recipe(), toml); }
  // UsageError if a new run would overwrite a file of the user's.
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
  // Whether this object created them, so that it removes them if no run begins.
  bool own_lock_ = false, own_process_logs_ = false, own_checkpoints_ = false;
};

}  // namespace comera
