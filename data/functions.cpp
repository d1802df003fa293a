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

bool contains(std::string_view characters, char c) { return characters.find(c) != std::string_view::npos; }

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The identifier that ends where `text` ends.
std::string_view last_name(std::string_view text) {
  text = trimmed(text);
  std::size_t begin = text.size();
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return text.substr(begin);
}

// The identifier that `text` begins with, if one of `brackets` follows it.
std::string_view name_before(std::string_view text, std::string_view brackets) {
  text = trimmed(text);
  const std::size_t end = std::ranges::find_if_not(text, is_name) - text.begin();
  const std::string_view rest = trimmed(text.substr(end));
  return !rest.empty() && contains(brackets, rest.front()) ? text.substr(0, end) : std::string_view();
}

bool says_enough(const DocumentedFunction& function) {
  return function.documentation.size() >= 16 && !function.name.empty();
}

// ---- Python

// The line after the signature that begins in `line`; 0 if the body stands on the signature's last line, or
// that line does not come soon.
std::size_t after_signature(const std::vector<std::string_view>& lines, std::size_t line) {
  int depth = 0;
  for (std::size_t i = line; i < std::min(lines.size(), line + 40); ++i) {
    char quote = 0;
    for (std::size_t at = 0; at < lines[i].size(); ++at) {
      const char c = lines[i][at];
      if (quote != 0) {
        at += c == '\\';
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '#') {
        break;
      } else if (c == ':' && depth <= 0) {
        const std::string_view rest = trimmed(lines[i].substr(at + 1));
        return rest.empty() || rest.front() == '#' ? i + 1 : 0;
      } else {
        depth += contains("([{", c) - contains(")]}", c);
      }
    }
  }
  return 0;
}

std::vector<DocumentedFunction> python_functions(std::string_view source) {
  const std::vector<std::string_view> lines = lines_of(source);
  std::vector<DocumentedFunction> found;
  for (std::size_t start = 0; start < lines.size(); ++start) {
    std::string_view head = trimmed(lines[start]);
    if (head.starts_with("async ")) head = trimmed(head.substr(6));
    if (!head.starts_with("def ")) continue;
    const std::size_t indent = indent_of(lines[start]);
    std::size_t at = after_signature(lines, start);
    if (at == 0) continue;
    const std::size_t body = at;
    while (at < lines.size() && is_blank(lines[at])) ++at;
    if (at == lines.size() || indent_of(lines[at]) <= indent) continue;
    std::string_view opening = trimmed(lines[at]);
    while (!opening.empty() && contains("rRuU", opening.front())) opening.remove_prefix(1);
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
    DocumentedFunction function{std::string(name_before(head.substr(4), "([")), joined(documentation), ""};
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
    if (last == at || !says_enough(function)) continue;  // nothing but documentation, or hardly any
    add(start, body);
    add(at, last);
    found.push_back(std::move(function));
    start = last - 1;  // functions within it are part of it
  }
  return found;
}

// ---- Languages with braces

// Past the string, character or comment that begins at `at`, or at itself.
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

// The brace that opens the block of a signature that begins at `at`: before a blank line or the end of a
// statement, and not among the parameters. source.size() if there is none.
std::size_t block_of(std::string_view source, std::size_t at, bool rust) {
  int depth = 0;
  while (at < source.size()) {
    const std::size_t past = past_quoted(source, at, rust);
    if (past != at) {
      at = past;
      continue;
    }
    const char c = source[at];
    if (depth <= 0 && c == '{') return at;
    if ((depth <= 0 && contains(";}", c)) || source.substr(at, 2) == "\n\n") break;
    depth += contains("([", c) - contains(")]", c);
    ++at;
  }
  return source.size();
}

// Past the brace that closes the one at `open`; 0 if there is none.
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

// func NAME(…) or func (RECEIVER) NAME(…)
std::string_view go_name(std::string_view signature) {
  if (!signature.starts_with("func")) return {};
  signature = trimmed(signature.substr(4));
  if (signature.starts_with('('))
    signature.remove_prefix(std::min(signature.find(')'), signature.size() - 1) + 1);
  return name_before(signature, "([");
}

// pub(crate) async fn NAME<'a>(…)
std::string_view rust_name(std::string_view signature) {
  const std::size_t keyword = signature.starts_with("fn ") ? 0 : signature.find(" fn ");
  if (contains(signature.substr(0, keyword), '=') || keyword == std::string_view::npos) return {};
  return name_before(signature.substr(signature.find(' ', keyword + 1)), "(<");
}

// What stands between a comment and a block, if it is a function's signature: its name. Annotations and
// attributes may come before the signature.
std::string_view function_name(std::string_view signature, std::string_view language) {
  for (signature = trimmed(signature); signature.starts_with('@') || signature.starts_with("#[");)
    signature = trimmed(signature.substr(std::min(signature.find('\n'), signature.size())));
  if (language == "go") return go_name(signature);
  if (language == "rust") return rust_name(signature);
  const std::size_t parenthesis = signature.find('(');
  if (parenthesis == std::string_view::npos || contains(signature, '=')) return {};
  const std::string_view name = last_name(signature.substr(0, parenthesis));
  for (const char* keyword : {"if", "for", "while", "switch", "catch", "return", "class", "struct"})
    if (name == keyword) return {};
  return name;
}

std::vector<DocumentedFunction> brace_functions(std::string_view source, std::string_view language) {
  const bool rust = language == "rust";
  std::vector<DocumentedFunction> found;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t past = past_quoted(source, at, rust);
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
      end = past_quoted(source, next, rust);
    }
    const std::size_t open = block_of(source, end, rust);
    DocumentedFunction function{std::string(function_name(source.substr(end, open - end), language)),
                                comment_text(source.substr(at, end - at)), ""};
    const std::size_t close = says_enough(function) ? past_block(source, open, rust) : 0;
    at = end;
    if (close == 0) continue;
    const std::size_t begin = source.find_first_not_of(" \t\r\n", end);
    function.code = source.substr(begin, close - begin);
    found.push_back(std::move(function));
    at = close;
  }
  return found;
}

}  // namespace

std::vector<DocumentedFunction> find_documented_functions(std::string_view source,
                                                          std::string_view language) {
  if (language == "python") return python_functions(source);
  if (std::ranges::find(brace_languages, language) != brace_languages.end())
    return brace_functions(source, language);
  return {};
}

}  // namespace comera::data
