#pragma once

#include <filesystem>
#include <string_view>

namespace comera::storage {

// The only process that changes a folder, as long as this lives; the system gives the lock back when a
// process ends, however it does. Two processes may well read the folder meanwhile.
class FolderLock {
 public:
  // The folder must be there. Error if another process has it: "FOLDER: another process is WORK there; wait
  // until it has ended, or give another folder".
  FolderLock(const std::filesystem::path& folder, std::string_view work);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Puts one folder in the place of another, or under a name that nothing has, in one step: at any moment the
// name leads to the whole old folder or to the whole new one. What `path` led to is then `replacement`. Error
// with the system's reason.
void swap_folders(const std::filesystem::path& replacement, const std::filesystem::path& path);

}  // namespace comera::storage
