#pragma once

#include <string_view>
#include <vector>

#include "storage/hash.h"

namespace comera::data {

// Functions whose code, without comments, docstrings and white space, is shorter are alike by chance:
// getters, setters and empty bodies.
inline constexpr std::size_t shortest_hashed_function = 100;

// The functions of a source file, documented or not, each as the hash of its code without comments,
// docstrings and white space. They are found by the file's layout, without parsing the language:
//   Python, Ruby: from a def to the end of what is indented deeper.
//   Languages with braces (data/corpus/code_layout.h): something with parentheses and the block behind it.
// A function within another is part of that one. Other languages have none.
std::vector<storage::Hash128> function_hashes(std::string_view source, std::string_view language);

}  // namespace comera::data
