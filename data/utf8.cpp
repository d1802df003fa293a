#include "data/utf8.h"

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

}  // namespace comera::data
