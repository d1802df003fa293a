#pragma once

#include <filesystem>
#include <optional>

#include "storage/folder_lock.h"
#include "storage/new_folders.h"

namespace comera::exchange {

// Whether a folder holds a model that comera has exported: its README.md says so.
bool holds_export(const std::filesystem::path& folder);

// UsageError unless an export may go there: nothing of a folder's is replaced without being asked for, and
// nothing but files of an export ever, since a model that comes from elsewhere is not ours to replace in
// part.
void check_export_target(const std::filesystem::path& folder, bool overwrite);

// Where an export is written: beside the folder, whose place it takes in one step, so that what was there
// before stays until the new one is whole, and nothing is left of one that fails.
class ExportFolder {
 public:
  // Makes FOLDER.partial (or a folder within FOLDER, if it cannot be replaced), which one process at a time
  // has. What an export that was killed has left there is removed; Error if it is anything else, or another
  // process exports there. Checks the target once nobody else can fill it.
  ExportFolder(const std::filesystem::path& folder, bool overwrite);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  // Gives the folder the files, in place of those of an export before; others that lie there stay.
  void commit();

 private:
  void commit_in_place() const;

  std::filesystem::path folder_, staging_;
  // The folder is a file system's root, or its parent may not be changed: files go into it one by one,
  // config.json, without which it is no model, taken away first and put there last.
  bool in_place_ = false;
  std::optional<storage::NewFolders> made_;
  std::optional<storage::FolderLock> lock_, lock_of_old_;
};

}  // namespace comera::exchange
