#include "data/corpus/functions.h"

#include <algorithm>

#include "data/corpus/code_layout.h"
#include "data/corpus/python_layout.h"

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

class PythonFunctions {
 public:
  explicit PythonFunctions(std::string_view source) : source_(source), lines_(python_lines(source)) {}

  std::vector<DocumentedFunction> find() {
    for (std::size_t line = 0; line < lines_.size();)
      line = lines_[line].statement ? std::max(take(line), line + 1) : line + 1;
    return std::move(found_);
  }

 private:
  std::size_t offset(std::size_t line) const {
    return static_cast<std::size_t>(lines_[line].text.data() - source_.data());
  }
  // Starting at `line`.
  std::size_t next_statement(std::size_t line) const {
    while (line < lines_.size() && !lines_[line].statement) ++line;
    return line;
  }
  std::size_t line_of(std::size_t at, std::size_t line) const {
    while (line + 1 < lines_.size() && offset(line + 1) <= at) ++line;
    return line;
  }
  std::size_t indent(std::size_t line) const { return indent_of(lines_[line].text); }

  // Adds the function that begins in the line, if it is documented; returns the line after it, or 0.
  std::size_t take(std::size_t start) {
    std::string_view head = trimmed(lines_[start].text);
    if (head.starts_with("async ")) head = trimmed(head.substr(6));
    if (!head.starts_with("def ") && !head.starts_with("def\t")) return 0;
    const std::size_t colon = end_of_head(source_, static_cast<std::size_t>(head.data() - source_.data()));
    if (colon == std::string_view::npos) return 0;
    const std::size_t body = line_of(colon, start) + 1;
    const std::size_t first = next_statement(body);
    const std::size_t behind_colon =
        std::min(source_.find_first_not_of(" \t\r\f", colon + 1), source_.size());
    const bool block = behind_colon == source_.size() || contains("#\n", source_[behind_colon]);
    if (!block || first == lines_.size() || indent(first) <= indent(start)) return 0;
    const PythonText text = python_text_statement(source_, offset(first) + indent(first));
    if (text.end == 0) return 0;
    const std::size_t code = line_of(text.end, first) + 1;
    std::size_t next = next_statement(code);
    const bool has_code = next < lines_.size() && indent(next) > indent(start);
    while (next < lines_.size() && indent(next) > indent(start)) next = next_statement(next + 1);
    DocumentedFunction function{std::string(name_before(head.substr(4), "([")), joined(lines_of(text.text)),
                                ""};
    if (!has_code || !says_enough(function)) return 0;
    add_code(start, body, indent(start), function.code);
    add_code(code, end_of_function(code, next, indent(start)), indent(start), function.code);
    found_.push_back(std::move(function));
    return next;  // nested functions are part of it
  }

  // Before the statement in line `next`: excludes the blank lines and comments before that statement, but
  // includes the indented comments of the function.
  std::size_t end_of_function(std::size_t begin, std::size_t next, std::size_t indent_before) const {
    std::size_t last = next;
    while (last > begin) {
      const std::string_view line = lines_[last - 1].text;
      const bool comment = trimmed(line).starts_with('#') && !lines_[last - 1].continued;
      if (!is_blank(line) && !(comment && indent_of(line) <= indent_before)) break;
      --last;
    }
    return last;
  }
  void add_code(std::size_t from, std::size_t to, std::size_t indent_before, std::string& code) const {
    for (std::size_t i = from; i < to; ++i) {
      const std::string_view line = lines_[i].text;
      code += line.substr(std::min(indent_before, indent_of(line)));
      code += '\n';
    }
  }

  std::string_view source_;
  std::vector<PythonLine> lines_;
  std::vector<DocumentedFunction> found_;
};

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

// If the text between a comment and a block is a function's signature: its name. Annotations and attributes
// may precede the signature.
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
    // Consecutive one-line comments are one comment.
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
  if (language == "python") return PythonFunctions(source).find();
  if (has_braces(language)) return brace_functions(source, language);
  return {};
}

}  // namespace comera::data
