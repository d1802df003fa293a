#pragma once

#include <string_view>

namespace comera::data {

// Whether the bytes are well-formed UTF-8: no overlong forms, surrogates or code points above U+10FFFF.
bool is_utf8(std::string_view bytes);

}  // namespace comera::data
