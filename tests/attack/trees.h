#pragma once

#include <functional>
#include <string>

#include "tests/attack/child.h"

// Compares a command's results with those of the command run alone.
namespace comera::attack {

// Names of all files and folders below one, sorted.
std::vector<std::string> names_below(const fs::path& folder);

// The first difference of two files, or of two folders with all below them, by their bytes; "" if there is
// none. ignored: whether a name within a folder does not count.
std::string difference_of_trees(const fs::path& ours, const fs::path& theirs,
                                const std::function<bool(const std::string&)>& ignored = {});

// The same for folders with runs: process ids and times do not count, and paths containing the command's
// folder are adjusted.
std::string difference_of_runs(const fs::path& ours, const fs::path& theirs);

// Whether the name is one that is given while a file is written.
bool is_temporary(const std::string& name);

// The first file below the folder, other than commands.txt, that has such a name; "" if there is none.
std::string temporary_below(const fs::path& folder);

}  // namespace comera::attack
