#include "tensorized/decomposition/input_moments.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/check.h"
#include "tensorized/decomposition/svd.h"
#include "tensorized/decomposition/tt_svd.h"

namespace comera {

InputMoments::InputMoments(std::int64_t width) : width_(width), sums_(width), gram_(width * width) {}

void InputMoments::add(std::span<const double> rows, std::span<const double> scales) {
  const std::int64_t count = std::ssize(scales);
  COMERA_CHECK(count * width_ == std::ssize(rows), "InputMoments: {} numbers are not {} rows of {}",
               rows.size(), count, width_);
  std::vector<double> scaled(rows.begin(), rows.end());
  for (std::int64_t i = 0; i < count; ++i) {
    total_ += scales[i] * scales[i];
    for (std::int64_t j = 0; j < width_; ++j) {
      double& value = scaled[i * width_ + j];
      value *= scales[i];
      sums_[j] += scales[i] * value;
    }
  }
  add_gram(scaled, gram_, count, width_);
}

std::vector<double> InputMoments::mean() const {
  COMERA_CHECK(total_ > 0, "InputMoments: there are no inputs");
  std::vector<double> mean = sums_;
  for (double& value : mean) value /= total_;
  return mean;
}

std::vector<double> InputMoments::root() const {
  constexpr double ridge = 1e-4;
  const std::vector<double> mean = this->mean();
  std::vector<double> covariance(gram_.size());
  double variance = 0;
  for (std::int64_t i = 0; i < width_; ++i) {
    for (std::int64_t j = 0; j <= i; ++j)
      covariance[i * width_ + j] = covariance[j * width_ + i] =
          gram_[i * width_ + j] / total_ - mean[i] * mean[j];
    variance += covariance[i * width_ + i] / static_cast<double>(width_);
  }
  if (variance <= 0) variance = 1;  // of inputs that never change every direction counts alike
  for (std::int64_t i = 0; i < width_; ++i) covariance[i * width_ + i] += ridge * variance;
  // Of a symmetric matrix the singular values are the eigenvalues.
  const LeftBasis basis = left_basis(covariance, width_, width_);
  std::vector<double> root = transposed(basis.vectors, width_, width_);
  for (std::int64_t i = 0; i < width_; ++i)
    for (std::int64_t j = 0; j < width_; ++j) root[i * width_ + j] *= std::sqrt(basis.norms[i]);
  return root;
}

OutputCut cut_outputs(std::span<const double> matrix, std::span<const double> weighted, std::int64_t outputs,
                      double error, std::int64_t cap) {
  const std::int64_t rows = std::ssize(weighted) / outputs, inputs = std::ssize(matrix) / outputs;
  const LeftBasis basis = left_basis(transposed(weighted, rows, outputs), outputs, rows);
  const double norm = frobenius_norm(basis.norms);
  const Cut kept = cut(basis.norms, error * norm, cap);
  OutputCut result{.matrix = std::vector<double>(matrix.size()),
                   .rank = kept.rank,
                   .error = norm > 0 ? kept.tail / norm : 0,
                   .capped = kept.capped};
  std::vector<double> directions(outputs * kept.rank);  // V
  for (std::int64_t j = 0; j < outputs; ++j)
    std::copy_n(basis.vectors.data() + j * basis.count, kept.rank, directions.data() + j * kept.rank);
  std::vector<double> within(inputs * kept.rank);
  multiply(matrix, directions, within, inputs, kept.rank, outputs);
  multiply(within, transposed(directions, outputs, kept.rank), result.matrix, inputs, outputs, kept.rank);
  return result;
}

}  // namespace comera
