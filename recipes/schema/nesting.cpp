#include "recipes/schema/nesting.h"

#include <algorithm>

#include "kernels/core/check.h"

namespace comera::recipe_detail {

namespace {

// The end of a string that begins at `at` with a quote: after its last quote, or the end of the text. Strings
// with one quote end with their line; the parser reports their errors. Up to two quotes belonging to a string
// may precede the three that end it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool long_one = text.substr(at).starts_with(three);
  at += long_one ? 3 : 1;
  while (at < text.size()) {
    if (quote == '"' && text[at] == '\\')
      at += 2;
    else if (long_one && text.substr(at).starts_with(three))
      return at + 3 +
             std::min<std::size_t>(text.substr(at + 3, 2).find_first_not_of(quote),
                                   text.substr(at + 3, 2).size());
    else if (!long_one && (text[at] == quote || text[at] == '\n'))
      return at + 1;
    else
      ++at;
  }
  return text.size();
}

bool goes_on_with_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == ' ' || c == '\t';
}

}  // namespace

void check_nesting(std::string_view toml, const std::string& file) {
  std::size_t names = 1, brackets = 0;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '.')
      ++names;
    else if (!goes_on_with_key(c))
      names = 1;
    if (c == '{' || c == '[')
      ++brackets;
    else if ((c == '}' || c == ']') && brackets > 0)
      --brackets;
    if (names > most_nested || brackets > most_nested)
      throw UsageError(
          fmt::format("{}:{}: {} nest deeper than {} levels, which no recipe needs; fix this line", file,
                      1 + std::ranges::count(toml.substr(0, at), '\n'),
                      names > most_nested ? "the names of a key" : "lists and tables", most_nested));
    ++at;
  }
}

}  // namespace comera::recipe_detail
