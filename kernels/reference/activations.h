#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/ops/elementwise/activation.h"

namespace comera::reference {

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// 2 sqrt(2 / π) (u + 0.044715 u³): (1 + tanh(x / 2)) / 2 is the sigmoid of x.
template <class T>
T gelu_tanh_argument(T u) {
  return std::sqrt(8 / std::numbers::pi_v<T>) * (u + T{0.044715} * u * u * u);
}

template <class T>
T activate(Activation activation, T u) {
  switch (activation) {
    case Activation::none:
      return u;
    case Activation::gelu:
      return u * T{0.5} * (1 + std::erf(u / std::numbers::sqrt2_v<T>));
    case Activation::gelu_tanh:
      return u * sigmoid(gelu_tanh_argument(u));
    case Activation::relu:
      return u < 0 ? T{0} : u;
    case Activation::silu:
      return u * sigmoid(u);
    case Activation::tanh:
      return std::tanh(u);
  }
  return u;
}

// At i, from the argument u or the value y, as traits_of() says; the other may be null.
template <class T>
T slope(Activation activation, const T* u, const T* y, std::int64_t i) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::gelu:
      return T{0.5} * (1 + std::erf(u[i] / std::numbers::sqrt2_v<T>)) +
             u[i] * std::exp(-u[i] * u[i] / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
    case Activation::gelu_tanh: {
      const T s = sigmoid(gelu_tanh_argument(u[i]));
      const T inner = std::sqrt(8 / std::numbers::pi_v<T>) * (1 + 3 * T{0.044715} * u[i] * u[i]);
      return s + u[i] * s * (1 - s) * inner;
    }
    case Activation::relu:
      return y[i] > 0 ? T{1} : T{0};
    case Activation::silu: {
      const T s = sigmoid(u[i]);
      return s + u[i] * s * (1 - s);
    }
    case Activation::tanh:
      return 1 - y[i] * y[i];
  }
  return 1;
}

}  // namespace comera::reference
