#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

// The layout of source code, determined without parsing it.
namespace comera::data {

// Whether blocks use braces and comments begin with // or /*.
bool has_braces(std::string_view language);

// Without line ends.
std::vector<std::string_view> lines_of(std::string_view text);
std::size_t indent_of(std::string_view line);
bool is_blank(std::string_view line);
std::string_view trimmed(std::string_view text);
bool is_name(char c);
// The identifier at the end of `text`.
std::string_view last_name(std::string_view text);

// For languages with braces: the position after the string, character or comment that begins at `at`, or `at`
// itself.
std::size_t past_quoted(std::string_view source, std::size_t at, bool rust);
// The position after the brace that closes the one at `open`; 0 if there is none.
std::size_t past_block(std::string_view source, std::size_t open, bool rust);

}  // namespace comera::data
