#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// What the tokens of Python tell of its layout without parsing it.
namespace comera::data {

struct PythonLine {
  std::string_view text;  // without its line end
  // Whether a statement begins here: not within a string or brackets, nor behind a backslash, blank or a
  // comment alone.
  bool statement = false;
  bool continued = false;  // whether it begins within a string, brackets, or behind a backslash
};

// The lines of a source file. A string that never ends ends its line, as far as it is not a triple one.
std::vector<PythonLine> python_lines(std::string_view source);

// Past the string, with its prefix, that begins at `at`; `at` if none does.
std::size_t past_python_string(std::string_view source, std::size_t at);

// The colon that ends the compound statement's head that begins at `at`; npos if it does not come.
std::size_t end_of_head(std::string_view source, std::size_t at);

// The strings that make up the statement at `at`, if they are all of it: what a docstring is. Escapes are
// those of the language; of f-strings and bytes there are none.
struct PythonText {
  std::string text;
  std::size_t end = 0;  // past the statement, or 0 if it is something else
};
PythonText python_text_statement(std::string_view source, std::size_t at);

}  // namespace comera::data
