#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// A function of a source file with its author's documentation.
struct DocumentedFunction {
  std::string name;
  std::string documentation;  // without comment signs and quotes, with the original line breaks
  std::string code;           // without the documentation
};

// The documented functions of a source file, found by its layout alone, without parsing the language:
//   Python: a def whose body begins with a docstring, as far as its statements are indented. Strings and
//   brackets may be indented less, and docstrings may have any quotes; letter escapes are replaced.
//   Languages with braces (C, C++, C#, Go, Java, JavaScript, Kotlin, PHP, Rust, Scala, Swift, TypeScript): a
//   comment right before something with parentheses and a block.
// Unrecognised code is skipped; other languages have no functions. A function nested in a found one is part
// of that one's code.
std::vector<DocumentedFunction> find_documented_functions(std::string_view source, std::string_view language);

}  // namespace comera::data
