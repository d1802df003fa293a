#pragma once

#include <optional>
#include <string>
#include <vector>

namespace comera::attack {

// One member of a gzip file.
std::string zipped(const std::string& text);
// With the given number of members, each with its own lines.
std::string zipped(const std::string& text, std::size_t members);

// The content of a gzip file of one or several members, optionally followed by zeros, if `gzip -t` accepts
// it; otherwise nothing.
std::optional<std::string> unzipped(const std::string& bytes);

}  // namespace comera::attack
