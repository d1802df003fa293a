#pragma once

#include <cmath>

#include "kernels/cpu/rows.h"

// Layer norm of one row, shared by the norms and the fused block ends.
COMERA_CPU_BEGIN

template <class T>
inline void norm_row(const T* x, const float* gamma, const float* beta, double eps, std::int64_t width, T* y,
                     float& mean, float& rstd) {
  vec total = splat(0), squares = splat(0);
  for_columns(0, width, [&](std::int64_t c, auto at) { total += at.load(x + c); });
  const float middle = sum(total) / static_cast<float>(width);
  for_columns(0, width, [&](std::int64_t c, auto at) {
    const vec d = at.keep(at.load(x + c) - middle);
    squares += d * d;
  });
  const float scale = 1.F / std::sqrt(sum(squares) / static_cast<float>(width) + static_cast<float>(eps));
  for_columns(0, width, [&](std::int64_t c, auto at) {
    at.store(y + c, at.load(gamma + c) * ((at.load(x + c) - middle) * scale) + at.load(beta + c));
  });
  mean = middle;
  rstd = scale;
}

// Means of g and of g x̂ over the whole row, for the row's gradient. Adds to dgamma and dbeta.
struct NormRowMeans {
  float g, product;
};
template <class T>
inline NormRowMeans norm_row_sums(const T* x, const float* gamma, float mean, float rstd, const T* dy,
                                  std::int64_t width, float* dgamma, float* dbeta) {
  vec sum_g = splat(0), sum_product = splat(0);
  for_columns(0, width, [&](std::int64_t c, auto at) {
    const vec normal = (at.load(x + c) - mean) * rstd, d = at.load(dy + c);
    const vec g = at.load(gamma + c) * d;
    sum_g += g;
    sum_product += g * normal;
    at.store(dgamma + c, at.load(dgamma + c) + d * normal);
    at.store(dbeta + c, at.load(dbeta + c) + d);
  });
  return {sum(sum_g) / static_cast<float>(width), sum(sum_product) / static_cast<float>(width)};
}
inline vec norm_gradient(vec x, vec gamma, float mean, float rstd, vec dy, const NormRowMeans& means) {
  return rstd * (gamma * dy - means.g - (x - mean) * rstd * means.product);
}

COMERA_CPU_END
