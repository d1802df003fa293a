#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

// Files that survive a crash whole or not at all. Every failure is an Error with the system's reason.
namespace comera {

// An open file, closed with the object.
class FileDescriptor {
 public:
  static FileDescriptor open_to_read(const std::filesystem::path& path);
  static FileDescriptor open_to_change(const std::filesystem::path& path);
  static FileDescriptor create(const std::filesystem::path& path);  // replaces the content of one that exists
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  std::int64_t size() const;
  void read(std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(std::int64_t offset, std::string_view data) const;
  void sync() const;

 private:
  FileDescriptor(const std::filesystem::path& path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Gives a finished and synced file its final name; the name refers to the old or to the new content, never to
// anything else, also after a power failure.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Gives an existing file a second name (a hard link, or a copy where the file system has none), replacing
// what had that name.
void link_file_durably(const std::filesystem::path& file, const std::filesystem::path& name);

// Replaces a small file atomically and durably. The temporary name is that of temporary_name().
void write_file_durably(const std::filesystem::path& path, std::string_view text);

// Makes the directory and those above it that are missing, so that they too survive a power failure: a file
// is only as durable as the names on the way to it.
void create_directories_durably(const std::filesystem::path& directory);

// Waits until the names in the directory are on the disk.
void sync_directory(const std::filesystem::path& directory);

// Where a file is written before it gets its name: in the same directory, recognisable after a crash.
std::filesystem::path temporary_name(const std::filesystem::path& path);

}  // namespace comera
