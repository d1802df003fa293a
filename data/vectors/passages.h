#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace comera::data {

// A part of a file that is searched for as one.
struct Passage {
  std::int64_t line = 1;  // where it begins, from 1
  std::string_view text;  // whole lines, without blank ones around them
};

// Code or prose as passages: a new one begins where a line that is not indented follows a blank line, such as
// a function with the comment above it, unless both sides are together at most a third of `most_bytes`. Ones
// longer than `most_bytes` are divided behind other blank lines, too, and else behind any line; a single line
// stays whole. Passages without a letter or digit are left out. `text` must outlive them.
std::vector<Passage> passages_of(std::string_view text, std::size_t most_bytes);

// The first line of a text that has something in it, without spaces around it, of at most `most_bytes` bytes
// and ending between two characters.
std::string_view first_line_of(std::string_view text, std::size_t most_bytes = 160);

}  // namespace comera::data
