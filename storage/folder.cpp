#include "storage/folder.h"

#include <algorithm>

#include "kernels/core/check.h"

namespace comera::storage {

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& code) {
  std::vector<std::filesystem::path> entries;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code))
    entries.push_back(entry->path());
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::filesystem::path> entries = entries_of(folder, code);
  COMERA_CHECK(!code || code == std::errc::no_such_file_or_directory,
               "{}: could not be listed: {}; fix that first, since the command depends on its contents",
               folder.string(), code.message());
  return entries;
}

bool exists(const std::filesystem::path& path) {
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  COMERA_CHECK(!code, "{}: could not be checked: {}; fix that first, since the command depends on it",
               path.string(), code.message());
  return there;
}

void refuse_missing(const std::filesystem::path& path, std::string_view what, std::string_view advice) {
  std::error_code code;
  if (std::filesystem::status(path, code).type() == std::filesystem::file_type::not_found)
    throw UsageError(
        fmt::format("{}: no such {}{}{}", path.string(), what, advice.empty() ? "" : "; ", advice));
}

namespace {

std::filesystem::path whole_path(const std::filesystem::path& path) {
  std::filesystem::path whole = from_root(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

std::string last_part(const std::filesystem::path& path) { return whole_path(path).filename().string(); }

std::filesystem::path without_last_part(const std::filesystem::path& path) {
  return whole_path(path).parent_path();
}

std::filesystem::path from_root(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::path whole = std::filesystem::absolute(path, code);
  return code ? path : whole;
}

}  // namespace comera::storage
