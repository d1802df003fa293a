#pragma once

#include <filesystem>
#include <vector>

namespace comera::storage {

// Made before the folders on the way to `path`: those that were not there yet and are empty at its end are
// removed, so that a start that fails leaves nothing.
class NewFolders {
 public:
  explicit NewFolders(std::filesystem::path path) {
    std::error_code code;
    for (; !path.empty() && !std::filesystem::exists(path, code); path = path.parent_path())
      missing_.push_back(path);
  }
  ~NewFolders() {
    std::error_code ignored;
    for (const auto& folder : missing_) std::filesystem::remove(folder, ignored);
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<std::filesystem::path> missing_;  // the innermost first
};

}  // namespace comera::storage
