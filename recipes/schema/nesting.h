#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace comera::recipe_detail {

// The limit for the names in a key (phase.0.steps has three), and for nested lists and tables. A recipe needs
// four.
inline constexpr std::size_t most_nested = 32;

// Throws UsageError, with the position in the file, if TOML nests deeper than that. Call it before parsing:
// the parser limits brackets but not the names of a key, and it builds, walks and destroys its tree by
// recursion, which would overflow the stack.
void check_nesting(std::string_view toml, const std::string& file);

}  // namespace comera::recipe_detail
