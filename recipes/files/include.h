#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>

namespace comera::recipe_detail {

// The file that `include = "given"` names in the recipe `file`: a path relative to that file, or the name of
// a packaged recipe. Throws UsageError beginning with `place` if there is neither.
std::filesystem::path included_file(const std::string& given, const std::string& file,
                                    const std::string& place);

// Completes a recipe with what the included one says besides: tables are joined key by key, and everything
// else, lists such as [[phase]] among it, stays as `own` has it. Positions in the files are kept.
void complete_with(toml::table& own, toml::table&& included);

}  // namespace comera::recipe_detail
