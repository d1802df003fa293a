#pragma once

#include <filesystem>
#include <vector>

namespace comera::storage {

// Creates a folder and its missing parents durably, and remembers which ones it created: on destruction it
// removes those that are empty, so that a failed start leaves nothing. Existing folders are kept. A dangling
// link is kept too, and is an Error.
class NewFolders {
 public:
  explicit NewFolders(const std::filesystem::path& path);
  ~NewFolders();
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the outermost first
};

}  // namespace comera::storage
