#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace comera::data {

// Goes through JSON as Python's json.loads takes it: RFC 8259, and NaN, Infinity, -Infinity and escapes of
// lone surrogates besides. Each function begins where the one before ended; after one that says false the
// place means nothing. Nesting takes a byte a level, and no stack.
class JsonScanner {
 public:
  // The text must outlive this, and be well-formed UTF-8.
  explicit JsonScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  // The next character; 0 at the end.
  char next() const { return at_end() ? '\0' : text_[at_]; }
  void blanks();
  // Past the character, if it is the next one.
  bool skip(char c);
  // Past any value; false if there is none that is whole.
  bool value();
  // A number, true, false, null, NaN, Infinity or -Infinity as it is written; empty if there is none.
  std::string_view scalar();
  // Past a string, whose text replaces that of `text`, unless that is null. lone becomes true if it holds
  // half a surrogate pair, in whose place U+FFFD stands.
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
