#pragma once

#include <filesystem>
#include <string_view>

namespace comera::storage {

// Exclusive access of one process to a folder for changes, as long as the object lives; the system releases
// the lock when the process ends, however it ends. Other processes may still read the folder.
class FolderLock {
 public:
  // The folder must exist. Error if another process holds it: "FOLDER: another process is WORK there; wait
  // until it has ended, or give another folder".
  FolderLock(const std::filesystem::path& folder, std::string_view work);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Replaces one folder by another, or moves it to a free name, atomically: at any moment the name leads to the
// whole old folder or to the whole new one. The old content of `path` is then in `replacement`. Error with
// the system's reason.
void swap_folders(const std::filesystem::path& replacement, const std::filesystem::path& path);

}  // namespace comera::storage
