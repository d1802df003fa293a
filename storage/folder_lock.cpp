#include "storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/core/check.h"
#include "storage/durable_file.h"

namespace comera::storage {

namespace {

// Whether the name still refers to the opened folder: another process may have replaced it.
bool is_still(int descriptor, const std::filesystem::path& folder) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && stat(folder.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view work) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(fmt::format("{}: could not open the folder: {}", path.string(), std::strerror(errno)));
  // A file system without locks excludes no process.
  const bool taken = flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && is_still(descriptor_, path)) return;
  ::close(std::exchange(descriptor_, -1));
  throw Error(fmt::format("{}: another process is {} there; wait until it has ended, or give another folder",
                          path.string(), work));
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void swap_folders(const std::filesystem::path& replacement, const std::filesystem::path& path) {
  const auto move = [](const std::filesystem::path& from, const std::filesystem::path& to, unsigned flags) {
    return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
  };
  const bool there = is_taken(path);
  bool done = move(replacement, path, there ? RENAME_EXCHANGE : RENAME_NOREPLACE);
  // Some file systems only have plain renames.
  if (!done && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
    std::filesystem::path before = path;
    before += ".before";
    COMERA_CHECK(!is_taken(before), "{}: was left in place of {} by a process that was killed; move it",
                 before.string(), path.string());
    if (there) {
      done = move(path, before, 0);
      if (done && !move(replacement, path, 0)) {
        const int code = errno;
        done = false;
        move(before, path, 0);
        errno = code;
      }
      if (done) move(before, replacement, 0);
    } else {
      done = move(replacement, path, 0);
    }
  }
  if (!done)
    throw Error(fmt::format("{}: could not be put in its place: {}", path.string(), std::strerror(errno)));
  sync_directory(path.parent_path());
}

}  // namespace comera::storage
