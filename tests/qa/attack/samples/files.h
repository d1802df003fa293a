#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace comera::attack {

void write_text(const std::filesystem::path& file, std::string_view text);
std::string read_text(const std::filesystem::path& file);  // "" if it cannot be read

}  // namespace comera::attack
