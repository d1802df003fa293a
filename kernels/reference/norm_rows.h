#pragma once

#include <cmath>
#include <cstdint>

// Layer norm of one row, shared with BiasDropoutResidualNorm.
namespace comera::reference {

template <class T>
void normalise_row(const T* x, const T* gamma, const T* beta, double eps, std::int64_t width, T* y, T& mean,
                   T& rstd) {
  T sum = 0, squares = 0;
  for (std::int64_t j = 0; j < width; ++j) sum += x[j];
  mean = sum / width;
  for (std::int64_t j = 0; j < width; ++j) squares += (x[j] - mean) * (x[j] - mean);
  rstd = 1 / std::sqrt(squares / width + static_cast<T>(eps));
  for (std::int64_t j = 0; j < width; ++j) y[j] = gamma[j] * (x[j] - mean) * rstd + beta[j];
}

// Writes (or adds) the gradient of one row; dx may be dy.
template <class T>
void normalise_row_backward(const T* x, const T* gamma, T mean, T rstd, const T* dy, std::int64_t width,
                            T* dx, bool accumulate, T* dgamma, T* dbeta) {
  T sum = 0, product = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const T normal = (x[j] - mean) * rstd, g = gamma[j] * dy[j];
    sum += g;
    product += g * normal;
    dgamma[j] += dy[j] * normal;
    dbeta[j] += dy[j];
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const T normal = (x[j] - mean) * rstd;
    const T value = rstd * (gamma[j] * dy[j] - sum / width - normal * product / width);
    dx[j] = accumulate ? dx[j] + value : value;
  }
}

}  // namespace comera::reference
