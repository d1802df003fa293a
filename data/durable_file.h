#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

// Files that survive a crash whole or not at all. Every failure is an Error with the system's reason.
namespace comera::data {

// An open file, closed with the object.
class FileDescriptor {
 public:
  static FileDescriptor open_to_read(const std::filesystem::path& path);
  static FileDescriptor open_to_change(const std::filesystem::path& path);
  static FileDescriptor create(const std::filesystem::path& path);  // replaces the content of one that exists
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const;
  void read(std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(std::int64_t offset, std::string_view data) const;
  void sync() const;

 private:
  FileDescriptor(const std::filesystem::path& path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A file that is written beside its name and gets it when it is complete: the name refers to the old or to
// the new content, never to anything else, also after a power failure.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();  // removes what did not get its name
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Where to write it: in the same directory, recognisable (.tmp) after a crash.
  const std::filesystem::path& temporary() const { return temporary_; }
  // Once it is written and closed.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

// Gives an existing file a second name (a hard link, or a copy where the file system has none), replacing
// what had that name.
void link_file_durably(const std::filesystem::path& file, const std::filesystem::path& name);

void write_file_durably(const std::filesystem::path& path, std::string_view text);

// Makes the directory and those above it that are missing, so that they too survive a power failure: a file
// is only as durable as the names on the way to it.
void create_directories_durably(const std::filesystem::path& directory);

// Gives a synced file its final name, durably.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Waits until the file's content is on the disk.
void sync_file(const std::filesystem::path& file);

// Waits until the names in the directory are on the disk.
void sync_directory(const std::filesystem::path& directory);

}  // namespace comera::data
