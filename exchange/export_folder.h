#pragma once

#include <filesystem>
#include <optional>

#include "storage/folder_lock.h"
#include "storage/new_folders.h"

namespace comera::exchange {

// Whether a folder contains a model exported by comera, according to its README.md.
bool holds_export(const std::filesystem::path& folder);

// UsageError unless an export may go there. Existing files are replaced only with `overwrite`, and only files
// of an earlier export: a model from elsewhere must not be replaced in part.
void check_export_target(const std::filesystem::path& folder, bool overwrite);

// The place where an export is written: beside the target folder, which it replaces atomically. The old
// content stays until the new one is complete, and a failed export leaves nothing.
class ExportFolder {
 public:
  // Creates FOLDER.partial (or a folder within FOLDER, if FOLDER cannot be replaced), for one process at a
  // time. Removes the leftovers of a killed export; Error if the name holds anything else, or if another
  // process exports there. Checks the target when no other process can fill it any more.
  ExportFolder(const std::filesystem::path& folder, bool overwrite);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  // Moves the files into the folder, replacing those of an earlier export; other files are kept.
  void commit();

 private:
  void commit_in_place() const;

  std::filesystem::path folder_, staging_;
  // The folder is a file system's root, or its parent is read-only: files are moved into it one by one.
  // config.json, without which the folder is not a model, is removed first and added last.
  bool in_place_ = false;
  std::optional<storage::NewFolders> made_;
  std::optional<storage::FolderLock> lock_, lock_of_old_;
};

}  // namespace comera::exchange
