#pragma once

#include <algorithm>

#include "kernels/core/tensors/tensor.h"
#include "kernels/cpu/products/panels.h"

// Diagonals beside tensor trains (kernels/ops/tensor_trains/diagonal.h) in kernels that have a panel's
// columns of some rows at hand. Both sizes of such a layer are multiples of a panel, so that no panel crosses
// from one part of the wider side into the next.
COMERA_CPU_BEGIN

inline constexpr std::int64_t diagonal_multiple = 32;  // of the widest panels

// Whether kernels of trains can add this diagonal: to a layer of `inputs` and `outputs`.
inline bool fits_diagonal(const Tensor& diagonal, std::int64_t inputs, std::int64_t outputs) {
  return !diagonal || (inputs % diagonal_multiple == 0 && outputs % diagonal_multiple == 0);
}

// to[r, :] += d from[r, :] for a panel's columns.
template <class To, class From>
inline void add_diagonal(To* to, std::int64_t ld, const float* d, const From* from, std::int64_t from_ld,
                         std::int64_t rows) {
  vec factors[panel_vectors];
  for (int v = 0; v < panel_vectors; ++v) factors[v] = load(d + v * lanes);
  for (std::int64_t r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v) {
      To* at = to + r * ld + v * lanes;
      store(at, load(at) + factors[v] * load(from + r * from_ld + v * lanes));
    }
}

// dd[:] += Σ_r a[r, :] b[r, :] for a panel's columns.
template <class A, class B>
inline void add_diagonal_gradient(float* dd, const A* a, std::int64_t a_ld, const B* b, std::int64_t b_ld,
                                  std::int64_t rows) {
  vec totals[panel_vectors];
  for (int v = 0; v < panel_vectors; ++v) totals[v] = load(dd + v * lanes);
  for (std::int64_t r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v)
      totals[v] += load(a + r * a_ld + v * lanes) * load(b + r * b_ld + v * lanes);
  for (int v = 0; v < panel_vectors; ++v) store(dd + v * lanes, totals[v]);
}

COMERA_CPU_END
