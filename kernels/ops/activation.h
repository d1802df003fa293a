#pragma once

#include <cstdint>

namespace comera {

enum class Activation : std::uint8_t { none, gelu /* erf */, tanh };

}  // namespace comera
