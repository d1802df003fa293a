#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace comera::storage {

// What a folder holds, sorted by name. Never throws for what the system says: `code` has it, and what was
// seen until then is returned.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& code);

// The same of a folder that decides about what is done: empty if there is none, and an Error with the
// system's reason if it cannot be listed, which is not the same.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
// Whether anything is there, links followed. Error with the system's reason if that cannot be found out.
bool exists(const std::filesystem::path& path);

// The last name of a path, also of one that ends with a slash or `.`.
std::string last_part(const std::filesystem::path& path);

// What stands before it, from the root.
std::filesystem::path without_last_part(const std::filesystem::path& path);

// The path from the root; as it is where the current folder no longer exists.
std::filesystem::path from_root(const std::filesystem::path& path);

}  // namespace comera::storage
