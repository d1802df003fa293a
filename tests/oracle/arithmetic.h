#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace comera::test {

// What a fixture is computed with, and how close it must come.
struct Arithmetic {
  const char* name;
  const Backend& (*backend)();
  DType dtype;
  double tolerance;
};
inline constexpr Arithmetic exact{"double", reference_backend, DType::float64, 1e-9};
inline constexpr Arithmetic quick{"float", cpu_backend, DType::float32, 3e-4};

}  // namespace comera::test
