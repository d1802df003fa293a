#pragma once

#include <cstddef>
#include <string_view>

namespace comera::data {

// Whether the bytes are well-formed UTF-8: no overlong forms, surrogates or code points above U+10FFFF.
bool is_utf8(std::string_view bytes);

// Whether the byte is a continuation byte of a character.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The character at `at` in well-formed UTF-8; advances `at`.
char32_t next_character(std::string_view text, std::size_t& at);
// The last character of the text.
char32_t last_character(std::string_view text);

}  // namespace comera::data
