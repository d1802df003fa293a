#pragma once

#include <filesystem>
#include <vector>

namespace comera::storage {

// Makes a folder and those above it that are missing, durably, and knows which of them it has made: those
// that are empty at its end are removed again, so that a start that fails leaves nothing. What was there
// before stays, and so does a link that leads nowhere, which is an Error.
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
