#include "data/vectors/passages.h"

#include <algorithm>
#include <cctype>

namespace comera::data {

namespace {

struct Line {
  std::string_view text;  // with its end
  bool blank = false, indented = false;
};

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Letters of other scripts are bytes beyond ASCII.
bool says_something(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || std::isalnum(byte) != 0;
  });
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string_view line = text.substr(begin, end - begin);
    lines.push_back({line, std::ranges::all_of(line, is_space), is_space(line.front())});
    begin = end;
  }
  return lines;
}

// Collects lines [begin, end) as passages.
class Divider {
 public:
  Divider(std::string_view text, std::size_t most_bytes)
      : text_(text), lines_(lines_of(text)), most_(most_bytes) {}

  std::vector<Passage> all() {
    // Whether a passage may begin here, from the strictest rule to none.
    const auto at_top = [&](std::size_t i) { return follows_blank(i) && !lines_[i].indented; };
    const auto behind_blank = [&](std::size_t i) { return follows_blank(i); };
    const auto anywhere = [](std::size_t) { return true; };
    divide_together(0, lines_.size(), most_ / 3, at_top, [&](std::size_t i, std::size_t j) {
      divide_together(i, j, most_, behind_blank, [&](std::size_t k, std::size_t l) {
        divide_together(k, l, most_, anywhere, [&](std::size_t m, std::size_t n) { add(m, n); });
      });
    });
    return std::move(passages_);
  }

 private:
  bool follows_blank(std::size_t i) const { return !lines_[i].blank && i > 0 && lines_[i - 1].blank; }
  std::size_t bytes(std::size_t begin, std::size_t end) const {
    std::size_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += lines_[i].text.size();
    return sum;
  }

  template <class May, class Take>
  void divide(std::size_t begin, std::size_t end, const May& may, const Take& take) const {
    std::size_t from = begin;
    for (std::size_t i = begin + 1; i < end; ++i)
      if (may(i)) take(from, i), from = i;
    if (from < end) take(from, end);
  }
  // Parts of together at most `most` bytes stay together.
  template <class May, class Take>
  void divide_together(std::size_t begin, std::size_t end, std::size_t most, const May& may,
                       const Take& take) const {
    if (bytes(begin, end) <= most) return take(begin, end);
    std::size_t from = begin, size = 0;
    divide(begin, end, may, [&](std::size_t b, std::size_t e) {
      const std::size_t more = bytes(b, e);
      if (size > 0 && size + more > most) take(from, b), from = b, size = 0;
      size += more;
    });
    take(from, end);
  }

  void add(std::size_t begin, std::size_t end) {
    while (begin < end && lines_[begin].blank) ++begin;
    while (begin < end && lines_[end - 1].blank) --end;
    if (begin == end) return;
    const char* const first = lines_[begin].text.data();
    const std::string_view last = lines_[end - 1].text;
    std::string_view whole = text_.substr(static_cast<std::size_t>(first - text_.data()),
                                          static_cast<std::size_t>(last.data() + last.size() - first));
    while (!whole.empty() && is_space(whole.back())) whole.remove_suffix(1);
    if (says_something(whole)) passages_.push_back({static_cast<std::int64_t>(begin) + 1, whole});
  }

  std::string_view text_;
  std::vector<Line> lines_;
  std::size_t most_;
  std::vector<Passage> passages_;
};

}  // namespace

std::vector<Passage> passages_of(std::string_view text, std::size_t most_bytes) {
  return Divider(text, most_bytes).all();
}

std::string_view first_line_of(std::string_view text, std::size_t most_bytes) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  text = text.substr(0, text.find('\n'));
  if (text.size() > most_bytes) {
    text = text.substr(0, most_bytes + 1);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.remove_suffix(1);
    text.remove_suffix(1);
  }
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace comera::data
