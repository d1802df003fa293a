#include "storage/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "kernels/core/check.h"
#include "storage/folder.h"
#include "storage/free_name.h"

namespace comera::storage {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  throw Error(fmt::format("{}: could not {}: {}{}", path.string(), action, std::strerror(code),
                          code == ENOSPC || code == EDQUOT ? "; free some space and try again" : ""));
}

// ---- Temporary names of files being written: .NAME.PROCESS.comera-tmp.

constexpr std::string_view suffix = ".comera-tmp";
constexpr std::size_t longest_stem = 200;  // of the 255 bytes that a name may have

std::string stem_of(const std::filesystem::path& path) {
  return path.filename().string().substr(0, longest_stem);
}

std::filesystem::path temporary_of(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}.{}{}", stem_of(path), getpid(), suffix);
}

struct LeftOver {
  std::string stem;
  pid_t process = 0;  // that created it; 0: not one of our names
};

LeftOver parse_temporary(const std::string& name) {
  if (!name.starts_with('.') || !name.ends_with(suffix)) return {};
  const std::string middle = name.substr(1, name.size() - 1 - suffix.size());
  const std::size_t dot = middle.rfind('.');
  LeftOver left;
  if (dot == std::string::npos) return left;
  const char* end = middle.data() + middle.size();
  const auto [past, code] = std::from_chars(middle.data() + dot + 1, end, left.process);
  if (code != std::errc() || past != end || left.process <= 0) return {};
  left.stem = middle.substr(0, dot);
  return left;
}

// This process writes one file of a name at a time; an earlier process may have had the same id.
bool is_gone(pid_t process) { return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH); }

void remove_left_overs(const std::filesystem::path& folder,
                       const std::function<bool(const LeftOver&)>& which) {
  std::error_code ignored;
  for (const std::filesystem::path& file : entries_of(folder.empty() ? "." : folder, ignored)) {
    const LeftOver left = parse_temporary(file.filename().string());
    if (left.process > 0 && which(left)) std::filesystem::remove(file, ignored);
  }
}

}  // namespace

FileDescriptor::FileDescriptor(const std::filesystem::path& path, int flags)
    : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  const bool made = (flags & O_EXCL) != 0, may_be_made = (flags & O_CREAT) != 0;
  if (descriptor_ < 0)
    fail(path, made ? "create the file" : may_be_made ? "open or create the file" : "open the file");
}

FileDescriptor FileDescriptor::open_to_read(const std::filesystem::path& path) {
  FileDescriptor file(path, O_RDONLY | O_NONBLOCK);  // opening a pipe without a writer would block
  struct stat status {};
  if (fstat(file.descriptor_, &status) != 0) fail(path, "ask what it is");
  COMERA_CHECK(S_ISREG(status.st_mode), "{}: is {}, expected a file", path.string(),
               S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device");
  return file;
}
FileDescriptor FileDescriptor::open_folder(const std::filesystem::path& path) {
  return {path, O_RDONLY | O_DIRECTORY};
}
FileDescriptor FileDescriptor::open_to_change(const std::filesystem::path& path) {
  return {path, O_RDWR | O_NOFOLLOW};
}
FileDescriptor FileDescriptor::create(const std::filesystem::path& path) {
  return {path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW};
}

FileDescriptor FileDescriptor::open_own(const std::filesystem::path& path) {
  check_own(path);
  return {path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK};
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t FileDescriptor::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(path_, "ask for the file's size");
  return status.st_size;
}

void FileDescriptor::read(std::int64_t offset, void* data, std::int64_t bytes) const {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read");
    COMERA_CHECK(got > 0, "{}: ends {} bytes too early", path_.string(), bytes);
    to += got;
    offset += got;
    bytes -= got;
  }
}

void FileDescriptor::write(std::int64_t offset, std::string_view data) const {
  while (!data.empty()) {
    const ssize_t put = ::pwrite(descriptor_, data.data(), data.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(path_, "write");
    data.remove_prefix(static_cast<std::size_t>(put));
    offset += put;
  }
}

void FileDescriptor::truncate(std::int64_t bytes) const {
  if (ftruncate(descriptor_, bytes) != 0) fail(path_, "shorten the file");
}

int FileDescriptor::release() { return std::exchange(descriptor_, -1); }

void FileDescriptor::sync() const {
  while (fsync(descriptor_) != 0)
    if (errno != EINTR) fail(path_, "write to the disk");
}

void sync_file(const std::filesystem::path& file) { FileDescriptor::open_to_read(file).sync(); }

void sync_directory(const std::filesystem::path& directory) {
  FileDescriptor::open_folder(directory.empty() ? "." : directory).sync();
}

std::vector<std::filesystem::path> create_directories_durably(const std::filesystem::path& directory) {
  std::error_code code;
  if (directory.empty() || std::filesystem::is_directory(directory, code)) return {};
  const bool absent =
      code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory || !code;
  // A name that is too long, or a loop of links.
  COMERA_CHECK(absent, "{}: could not create the directory: {}", directory.string(), code.message());
  std::error_code none;
  COMERA_CHECK(!std::filesystem::is_symlink(directory, none) || std::filesystem::exists(directory, none),
               "{}: is a link to {}, which does not exist; mount or create it, or remove the link",
               directory.string(), std::filesystem::read_symlink(directory, none).string());
  const std::filesystem::path above = directory.parent_path();
  std::vector<std::filesystem::path> made;
  if (!above.empty() && above != directory) made = create_directories_durably(above);
  const bool is_new = std::filesystem::create_directory(directory, code);
  if (!std::filesystem::is_directory(directory, none)) {
    for (auto folder = made.rbegin(); folder != made.rend(); ++folder) std::filesystem::remove(*folder, none);
    throw Error(fmt::format(
        "{}: could not create the directory: {}", directory.string(),
        !code || code == std::errc::file_exists ? "a file of that name is there" : code.message()));
  }
  sync_directory(above);
  if (is_new) made.push_back(directory);
  return made;
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "give the file its name");
  // Renaming one hard link of a file to another does nothing: the first one must be removed separately.
  struct stat first {
  }, second{};
  if (from.lexically_normal() != to.lexically_normal() && lstat(from.c_str(), &first) == 0 &&
      lstat(to.c_str(), &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
      first.st_nlink > 1 && ::unlink(from.c_str()) != 0)
    fail(from, "remove the file's old name");
  sync_directory(to.parent_path());
}

namespace {

std::mutex free_names_mutex;
std::set<std::filesystem::path> free_names;  // names under which nothing may be replaced

bool must_be_free(const std::filesystem::path& name) {
  const std::lock_guard lock(free_names_mutex);
  return free_names.erase(from_root(name).lexically_normal()) > 0;
}

void rename_to_free_name(const std::filesystem::path& from, const std::filesystem::path& to) {
  bool done = renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0;
  // Some file systems only have plain renames; a link replaces nothing, either.
  if (!done && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
    done = ::link(from.c_str(), to.c_str()) == 0 && ::unlink(from.c_str()) == 0;
  if (!done && errno == EEXIST)
    throw Error(fmt::format(
        "{}: another process has made it meanwhile; give --overwrite to replace it, or another name",
        to.string()));
  if (!done) fail(to, "give the file its name");
  sync_directory(to.parent_path());
}

}  // namespace

void never_replace(const std::filesystem::path& name) {
  const std::lock_guard lock(free_names_mutex);
  free_names.insert(from_root(name).lexically_normal());
}

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_of(path_)) {
  struct stat there {};
  const bool exists = stat(path_.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) fail(path_, "give a file that name");
  COMERA_CHECK(!exists || S_ISREG(there.st_mode),
               "{}: is {}, and only a file can be replaced; give another name", path_.string(),
               S_ISDIR(there.st_mode) ? "a folder" : "not a regular file");
  remove_left_overs(path_.parent_path(), [stem = stem_of(path_)](const LeftOver& left) {
    return left.stem == stem && is_gone(left.process);
  });
}

DurableFile::~DurableFile() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove(temporary_, ignored);
}

void DurableFile::commit() {
  sync_file(temporary_);
  if (must_be_free(path_))
    rename_to_free_name(temporary_, path_);
  else
    rename_durably(temporary_, path_);
  committed_ = true;
}

void link_file_durably(const std::filesystem::path& file, const std::filesystem::path& name) {
  DurableFile link(name);
  std::error_code code;
  // Renaming one hard link of a file to another does nothing, and the first one would stay.
  if (std::filesystem::equivalent(file, name, code) && !std::filesystem::is_symlink(name, code)) return;
  std::filesystem::create_hard_link(file, link.temporary(), code);
  if (code) return copy_file_durably(file, name);
  link.commit();
}

void copy_file_durably(const std::filesystem::path& file, const std::filesystem::path& name) {
  DurableFile copy(name);
  std::error_code code;
  std::filesystem::copy_file(file, copy.temporary(), code);  // copied instead
  COMERA_CHECK(!code, "{}: could not copy {} there: {}", name.string(), file.string(), code.message());
  copy.commit();
}

void write_file_durably(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  FileDescriptor::create(file.temporary()).write(0, text);
  file.commit();
}

namespace {

// Whether it is a file with exactly this text. Opening a pipe does not block.
bool holds(const std::filesystem::path& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status {};
  std::string there;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size == static_cast<off_t>(text.size())) {
    there.resize(text.size());
    std::size_t got = 0;
    for (ssize_t some = 1; some > 0 && got < there.size();
         got += static_cast<std::size_t>(std::max<ssize_t>(some, 0)))
      some = ::pread(file, there.data() + got, there.size() - got, static_cast<off_t>(got));
    there.resize(got);
  }
  ::close(file);
  return S_ISREG(status.st_mode) && there == text;
}

}  // namespace

void keep_file_durably(const std::filesystem::path& path, std::string_view text) {
  if (!holds(path, text)) write_file_durably(path, text);
}

void check_own(const std::filesystem::path& path) {
  struct stat named {};
  COMERA_CHECK(lstat(path.c_str(), &named) != 0 || S_ISREG(named.st_mode),
               "{}: is {}, and nothing is written through it; remove it or give it another name",
               path.string(),
               S_ISLNK(named.st_mode)   ? "a symbolic link"
               : S_ISDIR(named.st_mode) ? "a folder"
                                        : "not a regular file");
}

bool is_taken(const std::filesystem::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

void remove_left_overs_of(const std::filesystem::path& file) {
  remove_left_overs(file.parent_path(),
                    [stem = stem_of(file)](const LeftOver& left) { return left.stem == stem; });
}

void remove_left_overs_in(const std::filesystem::path& folder) {
  remove_left_overs(folder, [](const LeftOver&) { return true; });
}

void remove_left_overs_of_ended_in(const std::filesystem::path& folder) {
  remove_left_overs(folder, [](const LeftOver& left) { return is_gone(left.process); });
}

}  // namespace comera::storage
