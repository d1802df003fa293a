#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus/dropped.h"

namespace comera::data {

// The regular files of the inputs: files as given, and everything in folders in sorted order. Links are
// followed, and every folder is visited once. Folders whose names start with a dot are skipped. Memory: one
// folder's listing per level.
class FileWalk {
 public:
  struct File {
    std::filesystem::path path;
    std::int64_t bytes = 0;
    bool named = false;  // given as an input instead of found in a folder
  };

  // UsageError if there is no input, or one does not exist.
  explicit FileWalk(const std::vector<std::filesystem::path>& inputs);

  // False at the end. Skipped entries are counted in `dropped`: "hidden folder", "unreadable", "broken link"
  // (also a link to itself), "folder seen before" (a link back into the tree), "not a file" (pipes, sockets,
  // devices).
  bool next(File& file, DroppedByReason& dropped);

 private:
  struct Entry {
    std::filesystem::path path;
    bool named = false;
  };
  // Why the folder, or a part of it, was skipped; null if it was not.
  const char* enter(const std::filesystem::path& folder, std::uint64_t device, std::uint64_t inode);
  // Null if `file` is to be delivered.
  const char* take(const Entry& entry, File& file, bool& found);

  std::vector<Entry> pending_;  // last first
  std::set<std::pair<std::uint64_t, std::uint64_t>> folders_;
};

}  // namespace comera::data
