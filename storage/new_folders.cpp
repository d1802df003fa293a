#include "storage/new_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "storage/durable_file.h"

namespace comera::storage {

NewFolders::NewFolders(const std::filesystem::path& path) : made_(create_directories_durably(path)) {}

namespace {

// Removes the folder if it is empty, and no process that has locked it is about to write there.
void remove_unused(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  std::error_code ignored;
  // A file system without locks excludes no process.
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    std::filesystem::remove(folder, ignored);
  ::close(descriptor);
}

}  // namespace

NewFolders::~NewFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) remove_unused(*folder);
}

}  // namespace comera::storage
