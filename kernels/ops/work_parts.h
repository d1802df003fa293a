#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/work.h"

// Helpers for work_of() of the operations.
namespace comera {

// Bytes of tensors that are read or written once; omitted ones have none.
template <class... Tensors>
double once(const Tensors&... tensors) {
  return (0.0 + ... + static_cast<double>(tensors ? tensors.bytes() : 0));
}
// Bytes of tensors that are read and written.
template <class... Tensors>
double twice(const Tensors&... tensors) {
  return 2 * once(tensors...);
}
// The flops of a matrix product.
inline double product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
inline double bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
}

}  // namespace comera
