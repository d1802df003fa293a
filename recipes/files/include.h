#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace comera::recipe_detail {

// The file that `include = "given"` names in the recipe `file`: a path relative to that file, or the name of
// a packaged recipe. Throws UsageError beginning with `place` if there is neither.
std::filesystem::path included_file(const std::string& given, const std::string& file,
                                    const std::string& place);

// The other ways to say what a key says, which cannot stand beside it: "epochs" of "steps".
std::vector<std::string_view> alternatives_of(std::string_view key);
// Whether a table has the key, with another value than 0 or an empty list, which mean none.
bool is_given(const toml::table& table, std::string_view key);

// Completes a recipe with what the included one says besides: tables are joined key by key, and everything
// else, lists such as [[phase]] among it, stays as `own` has it. A key gives way to an alternative in `own`.
// Positions in the files are kept.
void complete_with(toml::table& own, toml::table&& included);

}  // namespace comera::recipe_detail
