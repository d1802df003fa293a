#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// The layout of Python code, determined from its tokens without parsing it.
namespace comera::data {

struct PythonLine {
  std::string_view text;  // without its line end
  // Whether a statement begins here: not within a string or brackets, not after a backslash, and not blank or
  // a comment alone.
  bool statement = false;
  bool continued = false;  // whether it begins within a string, brackets, or after a backslash
};

// The lines of a source file. An unterminated string ends with its line, unless it is triple-quoted.
std::vector<PythonLine> python_lines(std::string_view source);

// The position after the string, with its prefix, that begins at `at`; `at` if there is none.
std::size_t past_python_string(std::string_view source, std::size_t at);

// The colon that ends the head of the compound statement at `at`; npos if there is none.
std::size_t end_of_head(std::string_view source, std::size_t at);

// The strings that make up the whole statement at `at`, such as a docstring. Escapes are interpreted as in
// the language; f-strings and bytes do not count.
struct PythonText {
  std::string text;
  std::size_t end = 0;  // the position after the statement, or 0 if it is something else
};
PythonText python_text_statement(std::string_view source, std::size_t at);

}  // namespace comera::data
