#pragma once

#include <filesystem>

namespace comera::data {

// The path itself; for "-" a path under which standard input can be read several times: what a pipe delivers
// is first copied to an unnamed file in TMPDIR (default: /tmp), which ends with the process. UsageError if
// standard input is a terminal.
std::filesystem::path or_standard_input(const std::filesystem::path& path);

}  // namespace comera::data
