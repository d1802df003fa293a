#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

// What the layout of source code tells without parsing it.
namespace comera::data {

// Whether blocks stand in braces and comments begin with // or /*.
bool has_braces(std::string_view language);

// Without their line ends.
std::vector<std::string_view> lines_of(std::string_view text);
std::size_t indent_of(std::string_view line);
bool is_blank(std::string_view line);
std::string_view trimmed(std::string_view text);
bool is_name(char c);
// The identifier that ends where `text` ends.
std::string_view last_name(std::string_view text);

// Of languages with braces. Past the string, character or comment that begins at `at`, or at itself.
std::size_t past_quoted(std::string_view source, std::size_t at, bool rust);
// Past the brace that closes the one at `open`; 0 if there is none.
std::size_t past_block(std::string_view source, std::size_t open, bool rust);

}  // namespace comera::data
