#include "storage/new_folders.h"

#include "storage/durable_file.h"

namespace comera::storage {

NewFolders::NewFolders(const std::filesystem::path& path) : made_(create_directories_durably(path)) {}

NewFolders::~NewFolders() {
  std::error_code ignored;
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
    std::filesystem::remove(*folder, ignored);
}

}  // namespace comera::storage
