#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/ops/activation.h"

namespace comera::plain {

template <class T>
T activate(Activation activation, T u) {
  switch (activation) {
    case Activation::none:
      return u;
    case Activation::gelu:
      return u * T{0.5} * (1 + std::erf(u / std::numbers::sqrt2_v<T>));
    case Activation::tanh:
      return std::tanh(u);
    case Activation::relu:
      return u < 0 ? T{0} : u;
  }
  return u;
}

// gelu uses u; tanh and relu use the value y.
template <class T>
T slope(Activation activation, const T* u, const T* y, std::int64_t i) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::gelu:
      return T{0.5} * (1 + std::erf(u[i] / std::numbers::sqrt2_v<T>)) +
             u[i] * std::exp(-u[i] * u[i] / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
    case Activation::tanh:
      return 1 - y[i] * y[i];
    case Activation::relu:
      return y[i] > 0 ? T{1} : T{0};
  }
  return 1;
}

}  // namespace comera::plain
