#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The one place that opens files for writing, and files that survive a crash whole or not at all. Nothing is
// written through a symbolic link that stands where a file is to be made, and nothing that was there is
// overwritten but by the name that the user has given. Every failure is an Error with the system's reason.
namespace comera::storage {

// An open file, closed with the object.
class FileDescriptor {
 public:
  // Error for what is no regular file.
  static FileDescriptor open_to_read(const std::filesystem::path& path);
  static FileDescriptor open_folder(const std::filesystem::path& path);  // to sync it
  static FileDescriptor open_to_change(const std::filesystem::path& path);
  // A new file: Error if anything has that name, be it a link that leads nowhere.
  static FileDescriptor create(const std::filesystem::path& path);
  // A file that grows under its own name (a lock, a log), or a new one. Error if it is a link or no regular
  // file.
  static FileDescriptor open_own(const std::filesystem::path& path);
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const;
  void read(std::int64_t offset, void* data, std::int64_t bytes) const;
  void write(std::int64_t offset, std::string_view data) const;
  void truncate(std::int64_t bytes) const;
  void sync() const;
  // The caller's from now on, to be closed by it.
  int release();

 private:
  FileDescriptor(const std::filesystem::path& path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A file that is written beside its name and gets it when it is complete: the name refers to the old or to
// the new content, never to anything else, also after a power failure. A symbolic link of that name is
// replaced, and what it leads to stays as it is.
class DurableFile {
 public:
  // Removes what processes that were killed have left of the same file. Error if the name is that of a
  // folder, a device, or anything else but a file.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();  // removes what did not get its name
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Where to make it: in the same directory, as .NAME.PROCESS.comera-tmp, which is nobody else's name.
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

// The same as a file of its own.
void copy_file_durably(const std::filesystem::path& file, const std::filesystem::path& name);

void write_file_durably(const std::filesystem::path& path, std::string_view text);
// The same, but a file that holds this text already stays as it is.
void keep_file_durably(const std::filesystem::path& path, std::string_view text);

// Error if what has that name is a link or no regular file, as open_own() says.
void check_own(const std::filesystem::path& path);

// Whether anything has that name, be it a link that leads nowhere.
bool is_taken(const std::filesystem::path& path);

// Removes what was left of this file, or of all files of a folder, by processes that were killed while they
// wrote it. To be called by the only process that may write there.
void remove_left_overs_of(const std::filesystem::path& file);
void remove_left_overs_in(const std::filesystem::path& folder);
// The same of a folder where others may write as well: of processes that have ended.
void remove_left_overs_of_ended_in(const std::filesystem::path& folder);

// Makes the directory and those above it that are missing, so that they too survive a power failure: a file
// is only as durable as the names on the way to it. Returns those that it has made, the outermost first.
// Error if one cannot be made, or is a link that leads nowhere.
std::vector<std::filesystem::path> create_directories_durably(const std::filesystem::path& directory);

// Gives a synced file its final name, durably; the other name is gone, also where both were names of one
// file.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Waits until the file's content is on the disk.
void sync_file(const std::filesystem::path& file);

// Waits until the names in the directory are on the disk.
void sync_directory(const std::filesystem::path& directory);

}  // namespace comera::storage
