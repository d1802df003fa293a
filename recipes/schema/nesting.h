#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace comera::recipe_detail {

// How many names a key may have (phase.0.steps has three), and how many lists and tables may lie within each
// other. A recipe needs four.
inline constexpr std::size_t most_nested = 32;

// Throws UsageError, with the place in the file, if TOML nests deeper than that. To be asked before the text
// is parsed: the parser limits brackets but not the names of a key, and its tree is built, walked and
// destroyed by recursion, which would run out of stack.
void check_nesting(std::string_view toml, const std::string& file);

}  // namespace comera::recipe_detail
