#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"

namespace comera::test {

// The arithmetic for a fixture, and the required accuracy.
struct Arithmetic {
  const char* name;
  const Backend& (*backend)();
  DType dtype;
  double tolerance;
};
inline constexpr Arithmetic exact{"double", plain_backend, DType::float64, 1e-9};
inline constexpr Arithmetic quick{"float", cpu_backend, DType::float32, 1e-4};

}  // namespace comera::test
