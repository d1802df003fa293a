#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/folder_lock.h"
#include "storage/hdf5.h"
#include "storage/new_folders.h"
#include "storage/seal.h"

namespace comera::data {

// Exclusive access to a folder while a process makes shards in it: created if missing, and removed again if
// nothing is made.
class ShardFolder {
 public:
  // Error if another process makes shards there, or, unless they are to be replaced, if there are some
  // already.
  ShardFolder(const std::filesystem::path& folder, bool replace);

 private:
  storage::NewFolders made_;
  storage::FolderLock lock_;
};

// The files of one split during writing, whatever their content: FOLDER/SPLIT-00000.h5, …, which are called
// SPLIT-00000.h5.partial, … until all of them are on disk. A failure or destruction before publish() removes
// them.
class ShardFiles {
 public:
  ShardFiles(std::filesystem::path folder, std::string split, const storage::SealKind& kind)
      : folder_(std::move(folder)), split_(std::move(split)), kind_(kind) {}
  ~ShardFiles();
  ShardFiles(const ShardFiles&) = delete;
  ShardFiles& operator=(const ShardFiles&) = delete;

  // The next file, open until close(), after which it is completely on disk.
  storage::hdf5::File& open();
  bool is_open() const { return file_.is_open(); }
  storage::hdf5::File& file() { return file_; }
  void close();

  // Writes each file's index in the set, and seals it. No file can be opened afterwards.
  void seal();
  bool sealed() const { return sealed_; }
  // Renames the sealed files to their final names, the last one last: a set cut short by a kill or a crash
  // lacks files.
  void publish();

  std::int64_t count() const { return static_cast<std::int64_t>(completed_.size()); }

 private:
  std::filesystem::path temporary_path() const;

  std::filesystem::path folder_;
  std::string split_;
  storage::SealKind kind_;
  storage::hdf5::File file_;
  std::vector<std::filesystem::path> completed_;  // with their temporary names
  bool sealed_ = false;
};

// The name of a shard: SPLIT-00000.h5.
std::string shard_name(const std::string& split, std::int64_t index);

// Removes the shards of a split, in the order of their names, or the unfinished ones of a killed run.
void remove_shards(const std::filesystem::path& folder, const std::string& split);
void remove_unfinished_shards(const std::filesystem::path& folder, const std::string& split);

}  // namespace comera::data
