#pragma once

#include <cstdint>

namespace comera {

enum class Activation : std::uint8_t { none, gelu /* erf */, tanh, relu };

// Whether the slope is computed from the activation's value instead of its argument.
constexpr bool slope_by_value(Activation activation) {
  return activation == Activation::tanh || activation == Activation::relu;
}

// use.operator()<activation>(): a kernel is compiled for each activation.
template <class Use>
void for_activation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::none:
      return use.template operator()<Activation::none>();
    case Activation::gelu:
      return use.template operator()<Activation::gelu>();
    case Activation::tanh:
      return use.template operator()<Activation::tanh>();
    case Activation::relu:
      return use.template operator()<Activation::relu>();
  }
}

}  // namespace comera
