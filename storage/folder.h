#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace comera::storage {

// A folder's entries, sorted by name. Never throws: `code` gets the system's error, and the entries seen
// until then are returned.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& code);

// The same for a folder whose content matters for what happens next: empty if the folder does not exist;
// Error with the system's reason if it cannot be listed.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
// Whether the path exists, following links. Error with the system's reason if that cannot be determined.
bool exists(const std::filesystem::path& path);

// UsageError if nothing is at the path, which is then a mistake in the command line or the recipe. Other
// obstacles are reported by the code that opens it.
void refuse_missing(const std::filesystem::path& path, std::string_view what = "file or folder",
                    std::string_view advice = "");

// The last name of a path, even if the path ends with a slash or `.`.
std::string last_part(const std::filesystem::path& path);

// The absolute path of the part before it.
std::filesystem::path without_last_part(const std::filesystem::path& path);

// The absolute path; unchanged if the current folder no longer exists.
std::filesystem::path from_root(const std::filesystem::path& path);

}  // namespace comera::storage
