#include "data/functions.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace comera::data {

namespace {

constexpr std::array brace_languages = {"c",      "cpp", "cuda", "csharp", "go",         "java", "javascript",
                                        "kotlin", "php", "rust", "scala",  "typescript", "swift"};

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

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f") == std::string_view::npos; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// Lines without their common indentation and blank ends.
std::string joined(const std::vector<std::string_view>& lines) {
  std::string text;
  for (const std::string_view line : lines) {
    text += trimmed(line);
    text += '\n';
  }
  return std::string(trimmed(text));
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The identifier that ends where `text` ends.
std::string_view last_name(std::string_view text) {
  text = trimmed(text);
  std::size_t begin = text.size();
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return text.substr(begin);
}

// ---- Python

struct PythonSource {
  std::vector<std::string_view> lines;

  // The line after the signature that begins at `line`, or 0 if it does not end within a few lines.
  std::size_t after_signature(std::size_t line) const {
    int depth = 0;
    for (std::size_t i = line; i < std::min(lines.size(), line + 40); ++i) {
      for (const char c : lines[i]) depth += (c == '(' || c == '[') - (c == ')' || c == ']');
      const std::string_view end = trimmed(lines[i]);
      if (depth <= 0 && end.ends_with(':')) return i + 1;
    }
    return 0;
  }
};

std::vector<DocumentedFunction> python_functions(std::string_view source) {
  const PythonSource python{lines_of(source)};
  const auto& lines = python.lines;
  std::vector<DocumentedFunction> found;
  for (std::size_t start = 0; start < lines.size(); ++start) {
    std::string_view head = trimmed(lines[start]);
    if (head.starts_with("async ")) head = trimmed(head.substr(6));
    if (!head.starts_with("def ")) continue;
    const std::size_t indent = indent_of(lines[start]);
    const std::size_t parenthesis = head.find('(');
    std::size_t at = python.after_signature(start);
    if (parenthesis == std::string_view::npos || at == 0) continue;
    const std::size_t body = at;
    while (at < lines.size() && is_blank(lines[at])) ++at;
    if (at == lines.size() || indent_of(lines[at]) <= indent) continue;
    std::string_view opening = trimmed(lines[at]);
    while (!opening.empty() && std::string_view("rRuU").find(opening.front()) != std::string_view::npos)
      opening.remove_prefix(1);
    if (!opening.starts_with("\"\"\"") && !opening.starts_with("'''")) continue;
    const std::string_view quote = opening.substr(0, 3);
    std::vector<std::string_view> documentation;
    std::string_view rest = opening.substr(3);
    bool closed = false;
    for (;;) {
      const std::size_t end = rest.find(quote);
      documentation.push_back(rest.substr(0, end));
      closed = end != std::string_view::npos;
      ++at;
      if (closed || at >= lines.size()) break;
      rest = lines[at];
    }
    if (!closed) continue;
    DocumentedFunction function{std::string(trimmed(head.substr(4, parenthesis - 4))), joined(documentation),
                                ""};
    std::size_t end = at, last = at;
    for (; end < lines.size() && (is_blank(lines[end]) || indent_of(lines[end]) > indent); ++end)
      if (!is_blank(lines[end])) last = end + 1;
    const auto add = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        const std::string_view line = lines[i];
        function.code += line.substr(std::min(indent, indent_of(line)));
        function.code += '\n';
      }
    };
    if (last == at) continue;  // nothing but documentation
    add(start, body);
    add(at, last);
    found.push_back(std::move(function));
  }
  return found;
}

// ---- Languages with braces

// Past the string, character or comment that begins at `at`, or at itself.
std::size_t past_quoted(std::string_view source, std::size_t at) {
  const char c = source[at];
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

// Past the brace that closes the one at `open`; 0 if there is none.
std::size_t past_block(std::string_view source, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < source.size();) {
    const std::size_t past = past_quoted(source, i);
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

std::string comment_text(std::string_view comment) {
  std::vector<std::string_view> kept;
  for (std::string_view line : lines_of(comment)) {
    line = trimmed(line);
    while (!line.empty() && (line.front() == '/' || line.front() == '*' || line.front() == '!'))
      line.remove_prefix(1);
    if (line.ends_with("*/")) line.remove_suffix(2);
    kept.push_back(line);
  }
  return joined(kept);
}

// What stands between a comment and a block, if it is a function's signature: its name. A blank line parts a
// comment from what follows it; annotations and attributes may come before the signature.
std::string_view function_name(std::string_view signature) {
  if (signature.find("\n\n") != std::string_view::npos) return {};
  for (signature = trimmed(signature); signature.starts_with('@') || signature.starts_with("#[");)
    signature = trimmed(signature.substr(std::min(signature.find('\n'), signature.size())));
  const std::size_t parenthesis = signature.find('(');
  if (parenthesis == std::string_view::npos || signature.find_first_of(";={}") != std::string_view::npos)
    return {};
  const std::string_view name = last_name(signature.substr(0, parenthesis));
  for (const char* keyword : {"if", "for", "while", "switch", "catch", "return", "class", "struct"})
    if (name == keyword) return {};
  return name;
}

std::vector<DocumentedFunction> brace_functions(std::string_view source) {
  std::vector<DocumentedFunction> found;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t past = past_quoted(source, at);
    const bool comment = past != at && source[at] == '/';
    if (!comment) {
      at = std::max(past, at + 1);
      continue;
    }
    // Comments of one line each that follow each other are one.
    std::size_t end = past;
    while (source.substr(at, 2) == "//") {
      const std::size_t next = source.find_first_not_of(" \t", std::min(end + 1, source.size()));
      if (next == std::string_view::npos || source.substr(next, 2) != "//") break;
      end = past_quoted(source, next);
    }
    const std::size_t open = source.find('{', end);
    if (open == std::string_view::npos) break;
    const std::string_view name = function_name(source.substr(end, open - end));
    const std::size_t close = name.empty() ? 0 : past_block(source, open);
    if (close == 0) {
      at = end;
      continue;
    }
    const std::size_t begin = source.find_first_not_of(" \t\r\n", end);
    found.push_back({std::string(name), comment_text(source.substr(at, end - at)),
                     std::string(source.substr(begin, close - begin))});
    at = close;
  }
  return found;
}

}  // namespace

std::vector<DocumentedFunction> find_documented_functions(std::string_view source,
                                                          std::string_view language) {
  std::vector<DocumentedFunction> found;
  if (language == "python")
    found = python_functions(source);
  else if (std::ranges::find(brace_languages, language) != brace_languages.end())
    found = brace_functions(source);
  std::erase_if(found, [](const DocumentedFunction& function) {
    return function.documentation.size() < 16 || function.name.empty();
  });
  return found;
}

}  // namespace comera::data
