#include "data/function_hashes.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "data/code_layout.h"

namespace comera::data {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Past the string or comment that begins at `at`, or at itself: of languages whose comments begin with #.
std::size_t past_quoted_or_hash(std::string_view source, std::size_t at) {
  if (source[at] == '#') return std::min(source.find('\n', at), source.size());
  if (source[at] != '"' && source[at] != '\'') return at;
  const std::string_view three = source.substr(at, 3);
  if (three.size() == 3 && three[1] == three[0] && three[2] == three[0]) {
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
      const bool comment = behind != at && code[at] == (braces_ ? '/' : '#');
      if (behind != at && !comment) normal_.append(code.substr(at, behind - at));
      if (behind == at && !is_space(code[at])) normal_ += code[at];
      at = std::max(behind, at + 1);
    }
    if (normal_.size() >= shortest_hashed_function) hashes_.push_back(storage::hash128(normal_));
  }

  // From a def to the end of what is indented deeper; the `end` of Ruby says nothing more.
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
        if (close == 0) return;
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
  static bool is_signature(std::string_view text) {
    const std::size_t parenthesis = text.find('(');
    if (parenthesis == std::string_view::npos) return false;
    const std::string_view name = last_name(text.substr(0, parenthesis));
    static constexpr std::string_view control[] = {"if",     "for",    "foreach",     "while", "switch",
                                                   "catch",  "select", "match",       "using", "lock",
                                                   "return", "with",   "synchronized"};
    return std::ranges::find(control, name) == std::end(control);
  }

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
