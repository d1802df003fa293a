#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace comera::storage {

// The whole of a file that is read at once, such as a recipe. Error, before anything of it is read, for what
// is no regular file (a folder, a device, or a pipe, which may never end) and for one of more than `limit`
// bytes. `expected` is what it should be, for messages: "a recipe, a TOML file".
std::string read_small_file(const std::filesystem::path& path, std::int64_t limit, std::string_view expected);

}  // namespace comera::storage
