#include "data/corpus/function_hashes.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

#include "data/corpus/code_layout.h"

namespace comera::data {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool is_triple_quote(std::string_view three) { return three == "\"\"\"" || three == "'''"; }

// The position after the string or comment that begins at `at`, or `at` itself: for languages whose comments
// begin with #.
std::size_t past_quoted_or_hash(std::string_view source, std::size_t at) {
  if (source[at] == '#') return std::min(source.find('\n', at), source.size());
  if (source[at] != '"' && source[at] != '\'') return at;
  const std::string_view three = source.substr(at, 3);
  if (is_triple_quote(three)) {
    const std::size_t end = source.find(three, at + 3);
    return end == std::string_view::npos ? source.size() : end + 3;
  }
  return past_quoted(source, at, false);
}

// The hashes of the functions of one file.
class Functions {
 public:
  explicit Functions(std::string_view language) : braces_(has_braces(language)), rust_(language == "rust") {}

  void add(std::string_view code) {
    normal_.clear();
    for (std::size_t at = 0; at < code.size();) {
      const std::size_t behind = past(code, at);
      const bool comment = behind != at && is_comment(code.substr(at, 3));
      if (behind != at && !comment) normal_.append(code.substr(at, behind - at));
      if (behind == at && !is_space(code[at])) normal_ += code[at];
      at = std::max(behind, at + 1);
    }
    if (normal_.size() >= shortest_hashed_function) hashes_.push_back(storage::hash128(normal_));
  }

  // A function extends from a def to the end of the deeper indented lines; Ruby's `end` adds nothing.
  void add_indented(std::string_view source) {
    const std::vector<std::string_view> lines = lines_of(source);
    for (std::size_t start = 0; start < lines.size(); ++start) {
      std::string_view head = trimmed(lines[start]);
      if (head.starts_with("async ")) head = trimmed(head.substr(6));
      if (!head.starts_with("def ")) continue;
      const std::size_t indent = indent_of(lines[start]);
      std::size_t last = start;
      for (std::size_t line = start + 1; line < lines.size(); ++line) {
        if (is_blank(lines[line])) continue;
        const bool ends_signature = trimmed(lines[line]).starts_with(')');
        if (indent_of(lines[line]) <= indent && !ends_signature) break;
        last = line;
      }
      add(source.substr(lines[start].data() - source.data(),
                        lines[last].data() + lines[last].size() - lines[start].data()));
      start = last;
    }
  }

  void add_blocks(std::string_view source) {
    std::size_t statement = 0;
    int unclosed = 0;
    for (std::size_t at = 0; at < source.size();) {
      const std::size_t past = past_quoted(source, at, rust_);
      if (past != at) {
        const bool comment_before = source[at] == '/' && is_blank(source.substr(statement, at - statement));
        at = past;
        if (comment_before) statement = at;
        continue;
      }
      if (source[at] == '{' && is_signature(source.substr(statement, at - statement))) {
        const std::size_t close = past_block(source, at, rust_);
        // Two branches of an #ifdef may open the same block: functions in it may still be found.
        if (close == 0) {
          if (++unclosed > most_unclosed) return;
          statement = ++at;
          continue;
        }
        add(source.substr(statement, close - statement));
        at = statement = close;
        continue;
      }
      if (source[at] == ';' || source[at] == '{' || source[at] == '}') statement = at + 1;
      ++at;
    }
  }

  std::vector<storage::Hash128> take() { return std::move(hashes_); }

 private:
  std::size_t past(std::string_view code, std::size_t at) const {
    return braces_ ? past_quoted(code, at, rust_) : past_quoted_or_hash(code, at);
  }
  // Docstrings, which paraphrase other text, count as comments.
  bool is_comment(std::string_view beginning) const {
    return braces_ ? beginning[0] == '/' : beginning[0] == '#' || is_triple_quote(beginning);
  }
  // Whether the text before a block, since the last statement, is the head of a function.
  bool is_signature(std::string_view text) const {
    int depth = 0;
    std::size_t parenthesis = std::string_view::npos;  // the first one outside of annotations
    for (std::size_t at = 0; at < text.size();) {
      if (const std::size_t past = past_quoted(text, at, rust_); past != at) {
        at = past;
        continue;
      }
      if (const std::size_t past = past_annotation(text, at); past != at) {
        at = past;
        continue;
      }
      if (is_name(text[at])) {
        const std::string_view word = word_at(text, at);
        if (depth == 0 && is_one_of(word, types)) return false;
        at += word.size();
        continue;
      }
      if (text[at] == '(' && depth++ == 0 && parenthesis == std::string_view::npos) parenthesis = at;
      depth -= text[at] == ')';
      ++at;
    }
    // Within parentheses a block is an argument, such as a function that wraps a whole file.
    return depth == 0 && parenthesis != std::string_view::npos &&
           !is_one_of(last_name(text.substr(0, parenthesis)), control);
  }

  // @Name(...), #[...], __attribute__((...)) and template <...>.
  std::size_t past_annotation(std::string_view text, std::size_t at) const {
    if (text.substr(at, 2) == "#[") return past_brackets(text, at + 1, '[', ']');
    std::size_t end = at;
    if (text[at] == '@') {
      ++end;
      while (end < text.size() && (is_name(text[end]) || text[end] == '.')) ++end;
    } else if (is_name(text[at]) && is_one_of(word_at(text, at), attributes)) {
      end = at + word_at(text, at).size();
    } else if (is_name(text[at]) && word_at(text, at) == "template") {
      end = std::min(text.find('<', at), text.size());
      return past_brackets(text, end, '<', '>');
    } else {
      return at;
    }
    return end < text.size() && text[end] == '(' ? past_brackets(text, end, '(', ')') : end;
  }

  std::size_t past_brackets(std::string_view text, std::size_t at, char open, char close) const {
    int depth = 0;
    while (at < text.size()) {
      if (const std::size_t past = past_quoted(text, at, rust_); past != at) {
        at = past;
        continue;
      }
      depth += (text[at] == open) - (text[at] == close);
      ++at;
      if (depth == 0) break;
    }
    return at;
  }

  static std::string_view word_at(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    return text.substr(at, end - at);
  }
  static bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  }

  // Constructs with parentheses and a block that are not functions.
  static constexpr std::string_view control[] = {"if",     "for",    "foreach",     "while", "switch",
                                                 "catch",  "select", "match",       "using", "lock",
                                                 "return", "with",   "synchronized"};
  // Constructs that contain functions.
  static constexpr std::string_view types[] = {"class", "interface", "trait", "impl",
                                               "mod",   "namespace", "enum",  "record"};
  static constexpr std::string_view attributes[] = {"__attribute__", "__declspec", "alignas"};
  static constexpr int most_unclosed = 1000;

  bool braces_, rust_;
  std::string normal_;
  std::vector<storage::Hash128> hashes_;
};

}  // namespace

std::vector<storage::Hash128> function_hashes(std::string_view source, std::string_view language) {
  Functions functions(language);
  if (language == "python" || language == "ruby")
    functions.add_indented(source);
  else if (has_braces(language))
    functions.add_blocks(source);
  return functions.take();
}

}  // namespace comera::data
