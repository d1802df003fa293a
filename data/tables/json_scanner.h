#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace comera::data {

// Scans JSON as Python's json.loads accepts it: RFC 8259, plus NaN, Infinity, -Infinity and escapes of lone
// surrogates. Each function continues where the previous one ended; after one returns false, the position is
// undefined. Nesting takes a byte per level, and no stack.
class JsonScanner {
 public:
  // The text must outlive this, and be well-formed UTF-8.
  explicit JsonScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  // The next character; 0 at the end.
  char next() const { return at_end() ? '\0' : text_[at_]; }
  void blanks();
  // Skips the character, if it is the next one.
  bool skip(char c);
  // Skips any value; false if there is no complete one.
  bool value();
  // A number, true, false, null, NaN, Infinity or -Infinity as written; empty if there is none.
  std::string_view scalar();
  // Skips a string and stores its text in `text`, unless that is null. lone becomes true if it contains half
  // a surrogate pair, which is replaced by U+FFFD.
  bool string(std::string* text, bool& lone);

 private:
  bool escape(std::string* text, bool& lone);
  bool four_digits(std::uint32_t& unit);
  bool digits();
  bool number();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace comera::data
