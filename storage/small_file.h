#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace comera::storage {

// Reads a whole file at once, such as a recipe. Before reading, Error if it is not a regular file (a folder,
// a device, or a pipe, which may never end) or has more than `limit` bytes. `expected` describes it in
// messages: "a recipe, a TOML file".
std::string read_small_file(const std::filesystem::path& path, std::int64_t limit, std::string_view expected);

}  // namespace comera::storage
