#pragma once

#include <string_view>
#include <vector>

#include "storage/hash.h"

namespace comera::data {

// Functions with shorter code, without comments, docstrings and white space, are alike by chance: getters,
// setters and empty bodies.
inline constexpr std::size_t shortest_hashed_function = 100;

// The functions of a source file, documented or not, each as the hash of its code without comments,
// docstrings and white space. They are found by the file's layout, without parsing the language:
//   Python, Ruby: from a def to the end of the deeper indented lines.
//   Languages with braces (data/corpus/code_layout.h): something with parentheses and the block after it. A
//   nested function is part of the outer one. Other languages have none.
std::vector<storage::Hash128> function_hashes(std::string_view source, std::string_view language);

}  // namespace comera::data
