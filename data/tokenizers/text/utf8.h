#pragma once

#include <cstddef>
#include <string_view>

namespace comera::data {

// Whether the bytes are well-formed UTF-8: no overlong forms, surrogates or code points above U+10FFFF.
bool is_utf8(std::string_view bytes);

// Whether the byte is one of a character's after its first.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The character at `at` of well-formed UTF-8; moves `at` behind it.
char32_t next_character(std::string_view text, std::size_t& at);
// The character that the text ends with.
char32_t last_character(std::string_view text);

}  // namespace comera::data
