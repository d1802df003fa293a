#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus/dropped.h"

namespace comera::data {

// The regular files of some inputs: files as they are given, folders with all below them in sorted order.
// Links are followed, every folder is visited once. Folders whose name starts with a dot are left out.
// Memory: one folder's listing per level.
class FileWalk {
 public:
  struct File {
    std::filesystem::path path;
    std::int64_t bytes = 0;
    bool named = false;  // given as an input, not found in a folder
  };

  // UsageError if there is no input, or one does not exist.
  explicit FileWalk(const std::vector<std::filesystem::path>& inputs);

  // False at the end. What is not followed is counted in `dropped`: "hidden folder", "unreadable", "broken
  // link" (also a link to itself), "folder seen before" (a link back into the tree), "not a file" (pipes,
  // sockets, devices).
  bool next(File& file, DroppedByReason& dropped);

 private:
  struct Entry {
    std::filesystem::path path;
    bool named = false;
  };
  // Why the folder, or a part of it, was passed over; null if it was not.
  const char* enter(const std::filesystem::path& folder, std::uint64_t device, std::uint64_t inode);
  // Null if `file` is to be given.
  const char* take(const Entry& entry, File& file, bool& found);

  std::vector<Entry> pending_;  // last first
  std::set<std::pair<std::uint64_t, std::uint64_t>> folders_;
};

}  // namespace comera::data
