#pragma once

#include "kernels/shared/float8.h"

namespace comera {

// The code of a number times its tensor's scale. A value too large for the format becomes the largest number,
// but an infinity becomes a NaN: it comes from an earlier error, which a product has to reveal.
template <class F>
COMERA_HOST_DEVICE F float8_code(float value, float scale) {
  std::uint32_t word;
  memcpy(&word, &value, sizeof word);
  if ((word & 0x7fffffffu) == 0x7f800000u) value = float8_detail::from_bits(0x7fffffffu);
  return F(value * scale);
}

}  // namespace comera
