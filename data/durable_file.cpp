#include "data/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/core/check.h"

namespace comera::data {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  throw Error(fmt::format("{}: could not {}: {}{}", path.string(), action, std::strerror(code),
                          code == ENOSPC || code == EDQUOT ? "; free some space and try again" : ""));
}

}  // namespace

FileDescriptor::FileDescriptor(const std::filesystem::path& path, int flags)
    : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail(path, flags & O_CREAT ? "create the file" : "open the file");
}

FileDescriptor FileDescriptor::open_to_read(const std::filesystem::path& path) { return {path, O_RDONLY}; }
FileDescriptor FileDescriptor::open_to_change(const std::filesystem::path& path) { return {path, O_RDWR}; }
FileDescriptor FileDescriptor::create(const std::filesystem::path& path) {
  return {path, O_RDWR | O_CREAT | O_TRUNC};
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

void FileDescriptor::sync() const {
  while (fsync(descriptor_) != 0)
    if (errno != EINTR) fail(path_, "write to the disk");
}

void sync_file(const std::filesystem::path& file) { FileDescriptor::open_to_read(file).sync(); }

void sync_directory(const std::filesystem::path& directory) {
  FileDescriptor::open_to_read(directory.empty() ? "." : directory).sync();
}

void create_directories_durably(const std::filesystem::path& directory) {
  std::error_code code;
  if (std::filesystem::is_directory(directory, code)) return;
  const std::filesystem::path above = directory.parent_path();
  if (!above.empty() && above != directory) create_directories_durably(above);
  std::filesystem::create_directory(directory, code);
  COMERA_CHECK(std::filesystem::is_directory(directory), "{}: could not create the directory: {}",
               directory.string(), code ? code.message() : "a file of that name is there");
  sync_directory(above);
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "give the file its name");
  sync_directory(to.parent_path());
}

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp") {}

DurableFile::~DurableFile() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove(temporary_, ignored);
}

void DurableFile::commit() {
  sync_file(temporary_);
  rename_durably(temporary_, path_);
  committed_ = true;
}

void link_file_durably(const std::filesystem::path& file, const std::filesystem::path& name) {
  DurableFile link(name);
  std::error_code code;
  std::filesystem::remove(link.temporary(), code);
  std::filesystem::create_hard_link(file, link.temporary(), code);
  if (code)
    std::filesystem::copy_file(file, link.temporary(), std::filesystem::copy_options::overwrite_existing,
                               code);
  COMERA_CHECK(!code, "{}: could not copy {} there: {}", name.string(), file.string(), code.message());
  link.commit();
}

void write_file_durably(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  FileDescriptor::create(file.temporary()).write(0, text);
  file.commit();
}

}  // namespace comera::data
