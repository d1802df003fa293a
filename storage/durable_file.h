#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The only code that opens files for writing, and files that survive a crash completely or not at all. It
// never writes through a symbolic link where a file is to be created, and overwrites only the name that the
// user has given. Every failure is an Error with the system's reason.
namespace comera::storage {

// An open file, closed with the object.
class FileDescriptor {
 public:
  // Error if it is not a regular file.
  static FileDescriptor open_to_read(const std::filesystem::path& path);
  static FileDescriptor open_folder(const std::filesystem::path& path);  // for syncing it
  static FileDescriptor open_to_change(const std::filesystem::path& path);
  // A new file: Error if the name is taken, even by a dangling link.
  static FileDescriptor create(const std::filesystem::path& path);
  // A file that grows in place (a lock, a log), or a new one. Error if it is a link or not a regular file.
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
  // Transfers ownership to the caller, who must close it.
  int release();

 private:
  FileDescriptor(const std::filesystem::path& path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A file that is written under a temporary name and renamed when it is complete: the name always refers to
// the complete old or new content, also after a power failure. A symbolic link of that name is replaced, and
// its target is unchanged.
class DurableFile {
 public:
  // Removes leftovers of the same file from killed processes. Error if the name is that of a folder, a
  // device, or anything else but a file.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();  // removes the file if it was not committed
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Where to create it: in the same directory, as the unique name .NAME.PROCESS.comera-tmp.
  const std::filesystem::path& temporary() const { return temporary_; }
  // Called once it is written and closed.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

// Gives an existing file a second name (a hard link, or a copy if the file system has none), replacing any
// file of that name.
void link_file_durably(const std::filesystem::path& file, const std::filesystem::path& name);

// The same as an independent file.
void copy_file_durably(const std::filesystem::path& file, const std::filesystem::path& name);

void write_file_durably(const std::filesystem::path& path, std::string_view text);
// The same, but a file that already holds this text is unchanged.
void keep_file_durably(const std::filesystem::path& path, std::string_view text);

// Error if the name is that of a link or not of a regular file, as in open_own().
void check_own(const std::filesystem::path& path);

// Whether the name is taken, even by a dangling link.
bool is_taken(const std::filesystem::path& path);

// Removes leftovers of this file, or of all files of a folder, from processes that were killed while writing.
// Call it only in the one process that may write there.
void remove_left_overs_of(const std::filesystem::path& file);
void remove_left_overs_in(const std::filesystem::path& folder);
// The same for a folder where other processes may write as well: removes only leftovers of ended processes.
void remove_left_overs_of_ended_in(const std::filesystem::path& folder);

// Creates the directory and its missing parents durably: a file is only as durable as the names on its path.
// Returns the created ones, outermost first. Error if one cannot be created, or is a dangling link.
std::vector<std::filesystem::path> create_directories_durably(const std::filesystem::path& directory);

// Gives a synced file its final name, durably; the other name is gone, even if both were names of one file.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Waits until the file's content is on disk.
void sync_file(const std::filesystem::path& file);

// Waits until the directory's entries are on disk.
void sync_directory(const std::filesystem::path& directory);

}  // namespace comera::storage
