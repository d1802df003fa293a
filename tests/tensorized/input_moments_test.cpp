#include "tensorized/decomposition/input_moments.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/check.h"
#include "tensorized/decomposition/svd.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

constexpr std::int64_t inputs = 6, outputs = 5, rows = 40;

InputMoments moments_of(const std::vector<double>& x, std::vector<double> scales = {}) {
  if (scales.empty()) scales.assign(x.size() / inputs, 1.0);
  InputMoments moments(inputs);
  const auto half = static_cast<std::ptrdiff_t>(scales.size() / 2);
  const std::span<const double> all(x), of_rows(scales);
  moments.add(all.first(half * inputs), of_rows.first(half));  // in two parts
  moments.add(all.subspan(half * inputs), of_rows.subspan(half));
  return moments;
}

// Inputs far from 0, of different deviations.
std::vector<double> some_inputs() {
  std::vector<double> x = normal_values(rows * inputs, 1);
  for (std::int64_t i = 0; i < rows * inputs; ++i) x[i] = 3 + x[i] * (1 + static_cast<double>(i % inputs));
  return x;
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m,
                            std::int64_t n, std::int64_t k) {
  std::vector<double> c(m * n);
  multiply(a, b, c, m, n, k);
  return c;
}

// Mean square of what inputs around their mean lose.
double lost(const std::vector<double>& x, const std::vector<double>& mean, const std::vector<double>& matrix,
            const std::vector<double>& other) {
  std::vector<double> centred = x, difference(matrix.size());
  for (std::size_t i = 0; i < x.size(); ++i) centred[i] -= mean[i % inputs];
  for (std::size_t i = 0; i < matrix.size(); ++i) difference[i] = matrix[i] - other[i];
  const std::int64_t count = std::ssize(x) / inputs;
  const double norm = frobenius_norm(product(centred, difference, count, outputs, inputs));
  return norm * norm / static_cast<double>(count);
}

TEST(InputMoments, MeanAndRootAreThoseOfTheInputs) {
  const std::vector<double> x = some_inputs();
  const InputMoments moments = moments_of(x);
  const std::vector<double> mean = moments.mean(), root = moments.root();
  std::vector<double> expected(inputs), covariance(inputs * inputs);
  double variance = 0;
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t i = 0; i < inputs; ++i) expected[i] += x[t * inputs + i] / rows;
  for (std::int64_t i = 0; i < inputs; ++i) EXPECT_NEAR(mean[i], expected[i], 1e-12);
  for (std::int64_t i = 0; i < inputs; ++i)
    for (std::int64_t j = 0; j < inputs; ++j)
      for (std::int64_t t = 0; t < rows; ++t)
        covariance[i * inputs + j] +=
            (x[t * inputs + i] - expected[i]) * (x[t * inputs + j] - expected[j]) / rows;
  for (std::int64_t i = 0; i < inputs; ++i) variance += covariance[i * inputs + i] / inputs;
  const std::vector<double> square = product(transposed(root, inputs, inputs), root, inputs, inputs, inputs);
  for (std::int64_t i = 0; i < inputs; ++i)
    for (std::int64_t j = 0; j < inputs; ++j)
      EXPECT_NEAR(square[i * inputs + j], covariance[i * inputs + j] + (i == j ? 1e-4 * variance : 0),
                  1e-9 * variance);
}

// A row with a scale of 2 counts as four rows, one of 0 as none.
TEST(InputMoments, ScalesWeighRows) {
  const std::vector<double> x = some_inputs();
  std::vector<double> scales(rows, 1.0), repeated(x.begin() + inputs, x.end());
  scales[0] = 0;
  scales[1] = 2;
  for (int i = 0; i < 3; ++i) repeated.insert(repeated.end(), x.begin() + inputs, x.begin() + 2 * inputs);
  const InputMoments weighted = moments_of(x, scales), counted = moments_of(repeated);
  const std::vector<double> a = weighted.root(), b = counted.root();
  for (std::int64_t i = 0; i < inputs; ++i) EXPECT_NEAR(weighted.mean()[i], counted.mean()[i], 1e-12);
  const std::vector<double> of_a = product(transposed(a, inputs, inputs), a, inputs, inputs, inputs),
                            of_b = product(transposed(b, inputs, inputs), b, inputs, inputs, inputs);
  for (std::size_t i = 0; i < of_a.size(); ++i) EXPECT_NEAR(of_a[i], of_b[i], 1e-9);
  EXPECT_THROW(InputMoments(inputs).root(), Error);
}

// Whatever the rank, no matrix of it that is near loses less, and the error is what is lost.
TEST(InputMoments, TheCutLosesLeastOfTheOutputs) {
  const std::vector<double> x = some_inputs(), matrix = normal_values(inputs * outputs, 2);
  const InputMoments moments = moments_of(x);
  const std::vector<double> root = moments.root(), mean = moments.mean(),
                            weighted = product(root, matrix, inputs, outputs, inputs);
  const std::vector<double> nothing(matrix.size());
  for (std::int64_t rank = 1; rank <= outputs; ++rank) {
    const OutputCut cut = cut_outputs(matrix, weighted, outputs, 0, rank);
    EXPECT_EQ(cut.rank, rank);
    EXPECT_EQ(cut.capped, rank < outputs);
    const double least = lost(x, mean, matrix, cut.matrix);
    EXPECT_NEAR(cut.error * cut.error, least / lost(x, mean, matrix, nothing), 1e-3);
    if (rank == outputs) {
      EXPECT_LT(least, 1e-20);
      continue;
    }
    // Other directions of its outputs.
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<double> other = cut.matrix;
      const std::vector<double> noise = normal_values(outputs * outputs, 10 + trial);
      std::vector<double> turned = product(cut.matrix, noise, inputs, outputs, outputs);
      for (std::size_t i = 0; i < other.size(); ++i) other[i] += 0.02 * turned[i];
      EXPECT_GE(lost(x, mean, matrix, other), least * (1 - 1e-3));
    }
    // The best for the matrix alone.
    const OutputCut plain = cut_outputs(matrix, matrix, outputs, 0, rank);
    EXPECT_GT(lost(x, mean, matrix, plain.matrix), 1.01 * least);
  }
}

TEST(InputMoments, TheRankIsTheLeastWithinTheError) {
  const std::vector<double> matrix = normal_values(inputs * outputs, 3);
  std::int64_t last = outputs + 1;
  for (const double error : {1e-9, 0.2, 0.5, 0.8}) {
    const OutputCut cut = cut_outputs(matrix, matrix, outputs, error, outputs);
    EXPECT_LE(cut.error, error);
    EXPECT_LE(cut.rank, last);
    last = cut.rank;
    if (cut.rank > 1) {
      EXPECT_GT(cut_outputs(matrix, matrix, outputs, 0, cut.rank - 1).error, error);
    }
  }
  EXPECT_LT(last, outputs);
}

}  // namespace
}  // namespace comera::test
