#include "storage/new_folders.h"

#include <ranges>

#include "storage/durable_file.h"

namespace comera::storage {

NewFolders::NewFolders(const std::filesystem::path& path) : made_(create_directories_durably(path)) {}

NewFolders::~NewFolders() {
  std::error_code ignored;
  for (const std::filesystem::path& folder : made_ | std::views::reverse)
    std::filesystem::remove(folder, ignored);
}

}  // namespace comera::storage
