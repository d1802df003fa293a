#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// A function of a source file and what its author wrote about it.
struct DocumentedFunction {
  std::string name;
  std::string documentation;  // without comment signs and quotes, lines joined as they were
  std::string code;           // without the documentation
};

// The documented functions of a source file, found by its layout alone, without parsing the language:
//   Python: a def whose body begins with a docstring, as far as its statements are indented. Strings and
//   brackets may stand further left, and docstrings have any quotes; what they escape by a letter is put in
//   its place. Languages with braces (C, C++, C#, Go, Java, JavaScript, Kotlin, PHP, Rust, Scala, Swift,
//   TypeScript): a comment right before something with parentheses and a block.
// What it does not recognise it leaves out; other languages have none. A function within one that was found
// is part of that one's code and not found by itself.
std::vector<DocumentedFunction> find_documented_functions(std::string_view source, std::string_view language);

}  // namespace comera::data
