#include "data/folder.h"

#include <algorithm>

namespace comera::data {

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& code) {
  std::vector<std::filesystem::path> entries;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code))
    entries.push_back(entry->path());
  std::ranges::sort(entries);
  return entries;
}

std::filesystem::path from_root(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::path whole = std::filesystem::absolute(path, code);
  return code ? path : whole;
}

}  // namespace comera::data
