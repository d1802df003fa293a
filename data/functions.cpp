#include "data/functions.h"

#include <algorithm>

#include "data/code_layout.h"

namespace comera::data {

namespace {

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
  if (has_braces(language)) return brace_functions(source, language);
  return {};
}

}  // namespace comera::data
