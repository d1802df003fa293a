#include "data/tokenizers/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace comera::data {

bool is_utf8(std::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* const end = at + bytes.size();
  while (at < end) {
    std::uint64_t word = 0;
    if (end - at >= 8 && (std::memcpy(&word, at, 8), (word & 0x8080808080808080ull) == 0)) {
      at += 8;
      continue;
    }
    const unsigned char lead = *at;
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const int length = lead >= 0xc2 && lead <= 0xdf   ? 2
                       : (lead & 0xf0) == 0xe0        ? 3
                       : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                      : 0;
    if (length == 0 || end - at < length) return false;
    for (int i = 1; i < length; ++i)
      if ((at[i] & 0xc0) != 0x80) return false;
    // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
    if ((lead == 0xe0 && at[1] < 0xa0) || (lead == 0xed && at[1] > 0x9f) || (lead == 0xf0 && at[1] < 0x90) ||
        (lead == 0xf4 && at[1] > 0x8f))
      return false;
    at += length;
  }
  return true;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const char32_t lead = byte();
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t c = lead & (0x3Fu >> more);
  for (int i = 0; i < more && at < text.size(); ++i) c = (c << 6) | (byte() & 0x3F);
  return c;
}

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return next_character(text, at);
}

}  // namespace comera::data
