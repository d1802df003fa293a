#pragma once

#include <cstdint>

namespace comera {

// A new one: here, in traits_of(), and in the activations.h of the reference, CPU and CUDA backends, whose
// switches do not compile without it. Tests run over all_activations.
enum class Activation : std::uint8_t {
  none,
  gelu,       // u Φ(u), Φ the normal distribution's function (Hendrycks and Gimpel, 2016)
  gelu_tanh,  // their approximation: u (1 + tanh(sqrt(2 / π) (u + 0.044715 u³))) / 2
  relu,
  silu,  // u / (1 + exp(-u))
  tanh,
};
inline constexpr Activation all_activations[] = {Activation::none, Activation::gelu, Activation::gelu_tanh,
                                                 Activation::relu, Activation::silu, Activation::tanh};

// What the backward pass computes an activation's slope from: the forward pass keeps it.
enum class SlopeFrom : std::uint8_t {
  nothing,
  argument,  // u
  value,     // y
};

struct ActivationTraits {
  const char* name;
  SlopeFrom slope_from;
};

constexpr ActivationTraits traits_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return {"none", SlopeFrom::nothing};
    case Activation::gelu:
      return {"gelu", SlopeFrom::argument};
    case Activation::gelu_tanh:
      return {"gelu_tanh", SlopeFrom::argument};
    case Activation::relu:
      return {"relu", SlopeFrom::value};
    case Activation::silu:
      return {"silu", SlopeFrom::argument};
    case Activation::tanh:
      return {"tanh", SlopeFrom::value};
  }
  return {nullptr, SlopeFrom::nothing};  // no activation: check_activation() refuses it
}

constexpr bool slope_by_argument(Activation activation) {
  return traits_of(activation).slope_from == SlopeFrom::argument;
}
constexpr bool slope_by_value(Activation activation) {
  return traits_of(activation).slope_from == SlopeFrom::value;
}

// use.operator()<activation>(): a kernel is compiled for each activation.
template <class Use>
void for_activation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::none:
      return use.template operator()<Activation::none>();
    case Activation::gelu:
      return use.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return use.template operator()<Activation::gelu_tanh>();
    case Activation::relu:
      return use.template operator()<Activation::relu>();
    case Activation::silu:
      return use.template operator()<Activation::silu>();
    case Activation::tanh:
      return use.template operator()<Activation::tanh>();
  }
}

}  // namespace comera
