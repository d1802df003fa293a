#pragma once

#include <optional>
#include <string>
#include <vector>

namespace comera::attack {

// One member of a gzip file.
std::string zipped(const std::string& text);
// As many members as that, each with lines of its own.
std::string zipped(const std::string& text, std::size_t members);

// What is in a gzip file of one or several members, with zeros behind the last or none, as `gzip -t` finds it
// whole; nothing if it does not.
std::optional<std::string> unzipped(const std::string& bytes);

}  // namespace comera::attack
