#include "data/corpus/python_layout.h"

#include <algorithm>

#include "data/corpus/code_layout.h"

namespace comera::data {

namespace {

constexpr std::size_t none = std::string_view::npos;

struct PythonString {
  std::size_t content = 0;  // the start of its content
  std::size_t content_end = 0;
  std::size_t end = 0;
  bool raw = false, is_text = true;
};

bool is_one_of(char c, std::string_view characters) { return characters.find(c) != none; }

// The string that begins at `at`, with its prefix; false if there is none, or it is unterminated.
bool find_string(std::string_view source, std::size_t at, PythonString& found) {
  std::size_t quote = at;
  while (quote < source.size() && quote < at + 2 && is_one_of(source[quote], "rRuUbBfFtT")) ++quote;
  if (quote == source.size() || !is_one_of(source[quote], "\"'")) return false;
  for (const char c : source.substr(at, quote - at)) {
    found.raw = found.raw || is_one_of(c, "rR");
    found.is_text = found.is_text && !is_one_of(c, "bBfFtT");
  }
  const std::string triple(3, source[quote]);
  const bool is_triple = source.substr(quote, 3) == triple;
  const std::string_view closing = is_triple ? std::string_view(triple) : source.substr(quote, 1);
  found.content = quote + closing.size();
  for (std::size_t i = found.content; i < source.size(); ++i) {
    if (source[i] == '\\') {
      ++i;
    } else if (!is_triple && source[i] == '\n') {
      break;
    } else if (source.substr(i, closing.size()) == closing) {
      found.content_end = i;
      found.end = i + closing.size();
      return true;
    }
  }
  // Unterminated: extends to the end of the line, or of the text.
  found.content_end = found.end = is_triple ? source.size() : std::min(source.find('\n', at), source.size());
  return true;
}

// Skips anything but code: blanks, comments, and lines joined by a backslash; line ends only on request.
std::size_t past_space(std::string_view source, std::size_t at, bool line_ends) {
  while (at < source.size()) {
    const char c = source[at];
    if (c == '#')
      at = std::min(source.find('\n', at), source.size());
    else if (source.substr(at, 2) == "\\\n")
      at += 2;
    else if (source.substr(at, 3) == "\\\r\n")
      at += 3;
    else if (is_one_of(c, " \t\f\r") || (line_ends && c == '\n'))
      ++at;
    else
      break;
  }
  return at;
}

// The character of a one-letter escape; 0 if there is none.
char escaped(char c) {
  constexpr std::string_view letters = "\\'\"abfnrtv", characters = "\\'\"\a\b\f\n\r\t\v";
  const std::size_t found = letters.find(c);
  return found == none ? '\0' : characters[found];
}

// Numeric and named escapes stay as written.
void append_text(std::string_view content, bool raw, std::string& text) {
  for (std::size_t i = 0; i < content.size(); ++i) {
    const bool escape = !raw && content[i] == '\\' && i + 1 < content.size();
    const char c = escape ? escaped(content[i + 1]) : '\0';
    const bool joined_line = escape && content[i + 1] == '\n';
    if (!joined_line) text += c != '\0' ? c : content[i];
    if (joined_line || c != '\0') ++i;
  }
}

}  // namespace

std::size_t past_python_string(std::string_view source, std::size_t at) {
  const bool within_name = at > 0 && is_name(source[at - 1]);
  PythonString found;
  return (!within_name || is_one_of(source[at], "\"'")) && find_string(source, at, found) ? found.end : at;
}

std::vector<PythonLine> python_lines(std::string_view source) {
  std::vector<PythonLine> lines;
  for (const std::string_view text : lines_of(source)) lines.push_back({text, false});
  std::size_t line = 0;
  int depth = 0;
  bool fresh = true;  // at the beginning of a line, where a statement may begin
  for (std::size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (c == '\n') {
      ++line;
      ++at;
      fresh = depth == 0;
      if (line < lines.size()) lines[line].continued = depth > 0;
      continue;
    }
    if (is_one_of(c, " \t\f\r")) {
      ++at;
      continue;
    }
    if (c == '#') {
      at = std::min(source.find('\n', at), source.size());
      continue;
    }
    if (fresh) lines[line].statement = true;
    fresh = false;
    std::size_t past = past_python_string(source, at);
    if (past == at && c == '\\') past = past_space(source, at, false);
    if (past == at) {
      depth = std::max(0, depth + (is_one_of(c, "([{") ? 1 : is_one_of(c, ")]}") ? -1 : 0));
      ++past;
    }
    for (auto ends = std::count(source.begin() + at, source.begin() + past, '\n'); ends > 0; --ends)
      if (++line < lines.size()) lines[line].continued = true;
    at = past;
  }
  return lines;
}

std::size_t end_of_head(std::string_view source, std::size_t at) {
  int depth = 0;
  while (at < source.size()) {
    const std::size_t past = past_python_string(source, at);
    if (past != at) {
      at = past;
      continue;
    }
    const char c = source[at];
    if (c == '#') {
      at = std::min(source.find('\n', at), source.size());
      continue;
    }
    if (depth == 0 && c == ':') return at;
    if (c == '\n' && depth == 0 && (at == 0 || source[at - 1] != '\\')) return none;
    depth += is_one_of(c, "([{") - is_one_of(c, ")]}");
    ++at;
  }
  return none;
}

PythonText python_text_statement(std::string_view source, std::size_t at) {
  PythonText found;
  int depth = 0;
  bool any = false;
  for (;; at = past_space(source, at, depth > 0)) {
    PythonString part;
    if (at < source.size() && source[at] == '(' && !any) {
      ++depth;
      ++at;
    } else if (at < source.size() && source[at] == ')' && any && depth > 0) {
      --depth;
      ++at;
    } else if (find_string(source, at, part) && part.is_text) {
      any = true;
      append_text(source.substr(part.content, part.content_end - part.content), part.raw, found.text);
      at = part.end;
    } else {
      break;
    }
  }
  const bool ends = at >= source.size() || source[at] == '\n';
  found.end = any && depth == 0 && ends ? at : 0;
  return found;
}

}  // namespace comera::data
