#include "data/corpus/code_layout.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace comera::data {

bool has_braces(std::string_view language) {
  static constexpr std::array brace_languages = {"c",     "cpp",        "cuda",   "csharp", "go",
                                                 "java",  "javascript", "kotlin", "php",    "rust",
                                                 "scala", "typescript", "swift"};
  return std::ranges::find(brace_languages, language) != brace_languages.end();
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(" \t"), line.size()); }

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\n") == std::string_view::npos; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view last_name(std::string_view text) {
  text = trimmed(text);
  std::size_t begin = text.size();
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return text.substr(begin);
}

std::size_t past_quoted(std::string_view source, std::size_t at, bool rust) {
  const char c = source[at];
  const std::string_view next = source.substr(at + 1, 2);
  const bool lifetime = rust && c == '\'' && !next.empty() && is_name(next[0]) && !next.ends_with('\'');
  if (lifetime) return at;
  if (c == '"' || c == '\'' || c == '`') {
    std::size_t i = at + 1;
    while (i < source.size() && source[i] != c && (c == '`' || source[i] != '\n'))
      i += source[i] == '\\' ? 2 : 1;
    return std::min(i + 1, source.size());
  }
  if (source.substr(at, 2) == "//") return std::min(source.find('\n', at), source.size());
  if (source.substr(at, 2) == "/*") {
    const std::size_t end = source.find("*/", at + 2);
    return end == std::string_view::npos ? source.size() : end + 2;
  }
  return at;
}

std::size_t past_block(std::string_view source, std::size_t open, bool rust) {
  int depth = 0;
  for (std::size_t i = open; i < source.size();) {
    const std::size_t past = past_quoted(source, i, rust);
    if (past != i) {
      i = past;
      continue;
    }
    depth += source[i] == '{' ? 1 : source[i] == '}' ? -1 : 0;
    ++i;
    if (depth == 0) return i;
  }
  return 0;
}

}  // namespace comera::data
