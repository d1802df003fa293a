#include "data/tables/json_scanner.h"

#include <array>
#include <utility>

namespace comera::data {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

}  // namespace

void JsonScanner::blanks() {
  while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
    ++at_;
}

bool JsonScanner::skip(char c) {
  if (next() != c || at_end()) return false;
  ++at_;
  return true;
}

bool JsonScanner::four_digits(std::uint32_t& unit) {
  if (text_.size() - at_ < 4) return false;
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = text_[at_++];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    unit = unit << 4 | static_cast<std::uint32_t>(digit);
  }
  return true;
}

// Called after the backslash.
bool JsonScanner::escape(std::string* text, bool& lone) {
  constexpr std::string_view names = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
  if (at_end()) return false;
  const char c = text_[at_++];
  if (c != 'u') {
    const std::size_t found = names.find(c);
    if (found == std::string_view::npos) return false;
    if (text != nullptr) *text += characters[found];
    return true;
  }
  std::uint32_t code = 0;
  if (!four_digits(code)) return false;
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    const std::size_t behind = at_;
    at_ += 2;
    std::uint32_t low = 0;
    if (!four_digits(low)) return false;
    if (low >= 0xDC00 && low < 0xE000)
      code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    else
      at_ = behind;
  }
  if (code >= 0xD800 && code < 0xE000) {
    lone = true;
    code = 0xFFFD;
  }
  if (text != nullptr) append_utf8(*text, code);
  return true;
}

bool JsonScanner::string(std::string* text, bool& lone) {
  if (!skip('"')) return false;
  if (text != nullptr) text->clear();
  while (!at_end()) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20)
      ++at_;
    if (text != nullptr) text->append(text_, begin, at_ - begin);
    if (at_end()) return false;
    const char c = text_[at_++];
    if (c == '"') return true;
    if (c != '\\' || !escape(text, lone)) return false;
  }
  return false;
}

bool JsonScanner::digits() {
  const std::size_t begin = at_;
  while (is_digit(next())) ++at_;
  return at_ > begin;
}

bool JsonScanner::number() {
  if (!skip('0') && !digits()) return false;
  if (skip('.') && !digits()) return false;
  if (next() != 'e' && next() != 'E') return true;
  ++at_;
  if (next() == '+' || next() == '-') ++at_;
  return digits();
}

std::string_view JsonScanner::scalar() {
  constexpr std::array<std::string_view, 6> words = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
  const std::size_t begin = at_;
  for (const std::string_view word : words)
    if (text_.substr(at_).starts_with(word)) {
      at_ += word.size();
      return word;
    }
  skip('-');
  return number() ? text_.substr(begin, at_ - begin) : std::string_view();
}

bool JsonScanner::value() {
  std::string open;  // the open brackets, innermost last
  bool lone = false;
  // Skips the name of a member, up to the colon.
  const auto name = [&] {
    blanks();
    if (!string(nullptr, lone)) return false;
    blanks();
    return skip(':');
  };
  for (;;) {
    blanks();
    const char c = next();
    if (c == '{' || c == '[') {
      ++at_;
      blanks();
      if (!skip(c == '{' ? '}' : ']')) {
        open += c;
        if (c == '{' && !name()) return false;
        continue;
      }
    } else if (c == '"' ? !string(nullptr, lone) : scalar().empty()) {
      return false;
    }
    // After a value: the list or object continues or ends.
    for (;;) {
      if (open.empty()) return true;
      blanks();
      if (skip(',')) {
        if (open.back() == '{' && !name()) return false;
        break;
      }
      if (!skip(open.back() == '{' ? '}' : ']')) return false;
      open.pop_back();
    }
  }
}

}  // namespace comera::data
