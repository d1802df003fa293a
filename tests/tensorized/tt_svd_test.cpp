#include "tensorized/tt_svd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/core/check.h"
#include "tensorized/svd.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Every entry of the tensor train by definition.
std::vector<double> entries_of(const TTDecomposition& train) {
  const int order = static_cast<int>(train.sizes.size());
  std::vector<double> tensor;
  for (std::int64_t entry = 0; entry < product(train.sizes); ++entry) {
    std::vector<std::int64_t> index(order);
    std::int64_t rest = entry;
    for (int k = order - 1; k >= 0; --k) {
      index[k] = rest % train.sizes[k];
      rest /= train.sizes[k];
    }
    std::vector<double> row{1};
    for (int k = 0; k < order; ++k) {
      std::vector<double> next(train.rank(k + 1), 0);
      for (std::int64_t a = 0; a < train.rank(k); ++a)
        for (std::int64_t b = 0; b < train.rank(k + 1); ++b)
          next[b] += row[a] * train.cores[k][(a * train.sizes[k] + index[k]) * train.rank(k + 1) + b];
      row = next;
    }
    tensor.push_back(row[0]);
  }
  return tensor;
}

// A tensor train of random cores, whose ranks are the tensor's where possible.
std::vector<double> tensor_of_ranks(const std::vector<std::int64_t>& sizes,
                                    const std::vector<std::int64_t>& ranks) {
  TTDecomposition train{.sizes = sizes, .ranks = ranks, .cores = {}};
  for (int k = 0; k < static_cast<int>(sizes.size()); ++k)
    train.cores.push_back(normal_values(train.rank(k) * sizes[k] * train.rank(k + 1), 40 + k));
  return entries_of(train);
}

// Like trained weights: singular values of every unfolding fall, but none is zero.
std::vector<double> falling(const std::vector<std::int64_t>& sizes) {
  std::vector<double> tensor = normal_values(product(sizes), 3);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] *= std::exp(-8.0 * i / tensor.size());
  return tensor;
}

struct Case {
  std::vector<std::int64_t> sizes, ranks;
};

const std::vector<Case> cases = {
    {{7, 5}, {3}},
    {{5, 7}, {1}},
    {{64, 3}, {2}},
    {{3, 4, 5}, {2, 3}},
    {{7, 1, 6}, {4, 4}},
    {{3, 5, 2, 7}, {2, 4, 3}},
    {{4, 4, 4, 4}, {1, 3, 1}},
    {{2, 3, 2, 3, 2, 3}, {2, 3, 4, 3, 2}},
};

TEST(FrobeniusNorm, IsThatOfTheEntriesAndNoNumberIfOneIsNone) {
  EXPECT_DOUBLE_EQ(frobenius_norm(std::vector<double>{3e200, -4e200}), 5e200);
  EXPECT_EQ(frobenius_norm(std::vector<double>{0, 0}), 0);
  for (const double bad : {double{NAN}, double{INFINITY}})
    for (const auto& values : {std::vector<double>{bad}, std::vector<double>{0, bad},
                               std::vector<double>{bad, 1}, std::vector<double>{1, bad, 2}})
      EXPECT_FALSE(std::isfinite(frobenius_norm(values)));
}

// The true ranks are found at error 0, and every entry comes back.
TEST(TTSVD, FindsTheRanksOfATrain) {
  for (const Case& c : cases) {
    const std::vector<double> tensor = tensor_of_ranks(c.sizes, c.ranks);
    const TTDecomposition train = tt_svd(tensor, c.sizes, {});
    EXPECT_EQ(train.ranks, c.ranks);
    EXPECT_LT(relative_error(entries_of(train), tensor), 1e-14);
    EXPECT_FALSE(train.capped);
  }
}

TEST(TTSVD, FullRankTensorsComeBackWhole) {
  for (const Case& c : cases) {
    const std::vector<double> tensor = normal_values(product(c.sizes), 9);
    const TTDecomposition train = tt_svd(tensor, c.sizes, {});
    std::int64_t left = 1;
    for (std::size_t k = 0; k + 1 < c.sizes.size(); ++k) {
      left *= c.sizes[k];
      EXPECT_EQ(train.ranks[k], std::min(left, product(c.sizes) / left));
    }
    EXPECT_LT(relative_error(entries_of(train), tensor), 1e-14);
    EXPECT_LT(train.error, 1e-14);
  }
}

// The bound holds; the error is exactly the part cut off; and one rank less at any bond would exceed the
// bond's share of the error.
TEST(TTSVD, KeepsItsBudgetAndNoMoreThanThat) {
  for (const Case& c : cases) {
    const std::vector<double> tensor = falling(c.sizes);
    for (const double error : {1e-6, 1e-3, 0.03, 0.3, 0.9}) {
      const TTDecomposition train = tt_svd(tensor, c.sizes, {.error = error});
      const double reached = relative_error(entries_of(train), tensor);
      EXPECT_LE(reached, error);
      EXPECT_NEAR(reached, train.error, 1e-13);
      EXPECT_NEAR(relative_error(train, tensor), reached, 1e-13);
      for (std::size_t bond = 0; bond < train.ranks.size(); ++bond) {
        EXPECT_GE(train.ranks[bond], 1);
        if (train.ranks[bond] == 1) continue;
        // Earlier bonds have their ranks already, later ones are not cut.
        TTSVDOptions fewer{.error = 0, .max_ranks = train.ranks};
        std::fill(fewer.max_ranks.begin() + bond, fewer.max_ranks.end(), product(c.sizes));
        const double before = tt_svd(tensor, c.sizes, fewer).error;
        fewer.max_ranks[bond] = train.ranks[bond] - 1;
        const double after = tt_svd(tensor, c.sizes, fewer).error;
        EXPECT_GT(after * after - before * before, error * error / (c.sizes.size() - 1.0) * (1 - 1e-9));
      }
    }
  }
}

// Shares that make the tensor train small keep the same bound, with fewer parameters.
TEST(TTSVD, SharesTheErrorSoThatTheTrainIsSmall) {
  for (const Case& c : cases) {
    const std::vector<double> tensor = falling(c.sizes);
    for (const double error : {1e-6, 1e-3, 0.03, 0.3, 0.9}) {
      const TTDecomposition equal = tt_svd(tensor, c.sizes, {.error = error}),
                            small =
                                tt_svd(tensor, c.sizes, {.error = error, .shares = ErrorShares::smallest});
      const auto numbers = [](const TTDecomposition& train) {
        std::size_t sum = 0;
        for (const auto& core : train.cores) sum += core.size();
        return sum;
      };
      const double reached = relative_error(entries_of(small), tensor);
      EXPECT_LE(reached, error);
      EXPECT_NEAR(reached, small.error, 1e-13);
      EXPECT_LE(numbers(small), 1.1 * numbers(equal)) << error;
      for (const std::int64_t rank : small.ranks) EXPECT_GE(rank, 1);
    }
    // Without an error there is nothing to share.
    EXPECT_EQ(tt_svd(tensor, c.sizes, {.shares = ErrorShares::smallest}).ranks,
              tt_svd(tensor, c.sizes, {}).ranks);
  }
  // Like a layer's untrained matrix: the middle bond has most parameters, and gets most of the error.
  const std::vector<std::int64_t> sizes = {4, 4, 4, 4, 4, 4};
  const std::vector<double> noise = normal_values(product(sizes), 8);
  const TTDecomposition equal = tt_svd(noise, sizes, {.error = 0.5}),
                        small = tt_svd(noise, sizes, {.error = 0.5, .shares = ErrorShares::smallest});
  EXPECT_LT(small.ranks[2], 0.85 * equal.ranks[2]);
  EXPECT_LE(small.error, 0.5);
  EXPECT_GT(small.error, 0.48);
}

// The ranks that an error allows are those of the tail: singular values 1, 1/2, 1/4, … of a matrix.
TEST(TTSVD, CutsWhereTheTailSaysSo) {
  const std::int64_t n = 12;
  std::vector<double> matrix(n * n, 0), values;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(std::pow(0.5, i));
    matrix[i * n + (5 * i + 3) % n] = values.back();  // a permuted diagonal
  }
  const double norm = frobenius_norm(values);
  for (std::int64_t rank = 1; rank < n; ++rank) {
    const double tail = frobenius_norm(std::span(values).subspan(rank)) / norm;
    EXPECT_EQ(tt_svd(matrix, {n, n}, {.error = tail * 1.0001}).ranks[0], rank);
    EXPECT_EQ(tt_svd(matrix, {n, n}, {.error = tail * 0.9999}).ranks[0], rank + 1);
  }
}

TEST(TTSVD, CapsHoldAndAreReported) {
  const std::vector<std::int64_t> sizes = {5, 6, 7};
  const std::vector<double> tensor = falling(sizes);
  const TTDecomposition free = tt_svd(tensor, sizes, {.error = 0.01});
  const TTDecomposition same = tt_svd(tensor, sizes, {.error = 0.01, .max_ranks = free.ranks});
  EXPECT_EQ(same.ranks, free.ranks);
  EXPECT_FALSE(same.capped);
  const TTDecomposition capped = tt_svd(tensor, sizes, {.error = 0.01, .max_ranks = {2, 1}});
  EXPECT_EQ(capped.ranks, (std::vector<std::int64_t>{2, 1}));
  EXPECT_TRUE(capped.capped);
  EXPECT_GT(capped.error, 0.01);
  EXPECT_NEAR(relative_error(entries_of(capped), tensor), capped.error, 1e-13);
  // A cap that takes more than its share of the error leaves the other bonds theirs, however they share it;
  // one that leaves enough of it is made up for by the others.
  for (const ErrorShares shares : {ErrorShares::equal, ErrorShares::smallest}) {
    const TTDecomposition first =
        tt_svd(tensor, sizes, {.error = 0.1, .max_ranks = {1, 6}, .shares = shares});
    EXPECT_EQ(first.ranks[0], 1);
    EXPECT_GT(first.error, 0.1);
    const TTDecomposition last = tt_svd(tensor, sizes, {.error = 0.6, .max_ranks = {5, 3}, .shares = shares});
    EXPECT_LE(last.ranks[1], 3);
    EXPECT_NEAR(relative_error(entries_of(last), tensor), last.error, 1e-13);
  }
}

TEST(TTSVD, AZeroTensorHasRankOne) {
  for (const double error : {0.0, 0.5}) {
    const TTDecomposition train = tt_svd(std::vector<double>(60, 0.0), {3, 4, 5}, {.error = error});
    EXPECT_EQ(train.ranks, (std::vector<std::int64_t>{1, 1}));
    EXPECT_EQ(entries_of(train), std::vector<double>(60, 0.0));
    EXPECT_EQ(train.error, 0);
    EXPECT_EQ(relative_error(train, std::vector<double>(60, 0.0)), 0);
    // Not all cores are zero: their gradients would be, for good.
    EXPECT_GT(frobenius_norm(train.cores[0]) + frobenius_norm(train.cores[1]), 0.5);
  }
}

TEST(TTSVD, ASingleCoreIsTheTensor) {
  const std::vector<double> tensor = normal_values(11, 1);
  const TTDecomposition train = tt_svd(tensor, {11}, {.error = 0.5});
  EXPECT_TRUE(train.ranks.empty());
  EXPECT_LT(relative_error(train.cores[0], tensor), 1e-15);
  EXPECT_LT(relative_error(train, tensor), 1e-15);
}

TEST(TTSVD, CoresHaveEqualNorms) {
  const TTDecomposition train = tt_svd(falling({4, 6, 5, 3}), {4, 6, 5, 3}, {.error = 0.05});
  for (const auto& core : train.cores)
    EXPECT_NEAR(frobenius_norm(core), frobenius_norm(train.cores[0]), 1e-12 * frobenius_norm(train.cores[0]));
}

// Numbers far from 1 must not overflow when squared, nor vanish.
TEST(TTSVD, ScaleDoesNotMatter) {
  std::vector<double> tensor = falling({6, 7, 5});
  const std::vector<std::int64_t> ranks = tt_svd(tensor, {6, 7, 5}, {.error = 0.02}).ranks;
  for (const double scale : {1e-200, 1e200}) {
    std::vector<double> scaled = tensor;
    for (double& value : scaled) value *= scale;
    const TTDecomposition train = tt_svd(scaled, {6, 7, 5}, {.error = 0.02});
    EXPECT_EQ(train.ranks, ranks);
    EXPECT_LE(relative_error(train, scaled), 0.02);
  }
}

TEST(TTSVD, RefusesWhatIsNoTensor) {
  EXPECT_THROW(tt_svd(normal_values(10, 1), {3, 4}, {}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, NAN}, {2, 2}, {}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, INFINITY}, {2, 2}, {}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, 4}, {2, 2}, {.error = -1}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, 4}, {2, 2}, {.error = NAN}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, 4}, {2, 2}, {.error = 0, .max_ranks = {0}}), Error);
  EXPECT_THROW(tt_svd({1, 2, 3, 4}, {2, 2}, {.error = 0, .max_ranks = {1, 1}}), Error);
}

// Bases of wide, square and tall matrices: UᵀU = 1, U (UᵀA) = A, and rows of UᵀA are orthogonal.
TEST(LeftBasisOf, MatricesOfEveryShape) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {
      {1, 1}, {1, 9}, {9, 1}, {17, 17}, {13, 400}, {400, 13}, {60, 71}, {71, 60}};
  for (const auto& [m, n] : shapes) {
    SCOPED_TRACE(fmt::format("{} x {}", m, n));
    const std::vector<double> a = normal_values(m * n, m + n);
    const LeftBasis basis = left_basis(a, m, n);
    const std::int64_t count = std::min(m, n);
    ASSERT_EQ(basis.count, count);
    ASSERT_EQ(std::ssize(basis.norms), count);
    EXPECT_TRUE(std::ranges::is_sorted(basis.norms, std::greater<>()));
    EXPECT_NEAR(frobenius_norm(basis.norms), frobenius_norm(a), 1e-13 * frobenius_norm(a));
    std::vector<double> gram(count * count), projected(count * n), back(m * n), rows(n * count);
    multiply(basis.vectors, basis.vectors, gram, count, count, m, true);
    for (std::int64_t i = 0; i < count * count; ++i)
      EXPECT_NEAR(gram[i], i % (count + 1) == 0 ? 1 : 0, 1e-13);
    multiply(basis.vectors, a, projected, count, n, m, true);
    EXPECT_LT(relative_error(basis.projected, projected), 1e-14);
    multiply(basis.vectors, basis.projected, back, m, n, count);
    EXPECT_LT(relative_error(back, a), 1e-14);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < n; ++j) rows[j * count + i] = basis.projected[i * n + j];
    multiply(basis.projected, rows, gram, count, count, n);
    for (std::int64_t i = 0; i < count * count; ++i) {
      if (i % (count + 1) != 0) {
        EXPECT_NEAR(gram[i], 0, 1e-12 * m * n);
      }
    }
  }
}

// Singular values from 1 down to 1e-12: the larger half are found to many digits. Below the square root of
// the precision the directions mix, but the claim about a cut still holds: the tail of the norms is the
// distance from the directions before it, and the basis holds all of the matrix.
TEST(LeftBasisOf, SmallSingularValues) {
  for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{{21, 90}, {90, 21}}) {
    const std::int64_t count = 21;
    const LeftBasis left = left_basis(normal_values(m * count, 1), m, count),
                    right = left_basis(normal_values(n * count, 2), n, count);
    std::vector<double> scaled = left.vectors, transposed(count * n), a(m * n), values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(std::pow(10.0, -0.6 * static_cast<double>(i)));
    for (std::int64_t i = 0; i < m * count; ++i) scaled[i] *= values[i % count];
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < count; ++j) transposed[j * n + i] = right.vectors[i * count + j];
    multiply(scaled, transposed, a, m, n, count);
    const LeftBasis basis = left_basis(a, m, n);
    for (std::int64_t i = 0; i < 11; ++i) EXPECT_NEAR(basis.norms[i] / values[i], 1, 1e-3) << i;
    for (std::int64_t rank = 1; rank <= count; ++rank) {
      std::vector<double> first(m * rank), projected(rank * n), back(m * n);
      for (std::int64_t i = 0; i < m; ++i)
        std::copy_n(basis.vectors.data() + i * count, rank, first.data() + i * rank);
      multiply(first, a, projected, rank, n, m, true);
      multiply(first, projected, back, m, n, rank);
      for (std::int64_t i = 0; i < m * n; ++i) back[i] -= a[i];
      const double tail = frobenius_norm(std::span(basis.norms).subspan(rank));
      EXPECT_NEAR(frobenius_norm(back), tail, 3e-15 + 1e-9 * tail) << rank;
      EXPECT_LE(tail, 2 * frobenius_norm(std::span(values).subspan(rank)) + 2e-8) << rank;
    }
  }
}

// A linear's cores multiply to its matrix as the layer multiplies them, an embedding's to its table.
TEST(TTSVD, LayoutsAreThoseOfTheLayers) {
  const TTShape shape{{2, 3, 2}, {3, 5}, {2, 6, 12, 5}};
  const std::vector<double> matrix = normal_values(12 * 15, 5);
  const TTDecomposition linear = tt_svd(matrix, tensor_sizes(shape), {});
  ParameterStore store;
  TTShape with_ranks = shape;
  with_ranks.ranks = linear.ranks;
  const TTCores train = TTCores::add(store, "layer", with_ranks);
  const TTMShape table_shape{{3, 2, 4}, {2, 3, 1}, {6, 4}};
  const std::int64_t vocabulary = 19, width = 6;
  const std::vector<double> table = normal_values(vocabulary * width, 6);
  const TTDecomposition embedding =
      tt_svd(table_as_tensor(table, vocabulary, table_shape), tensor_sizes(table_shape), {});
  TTMShape table_with_ranks = table_shape;
  table_with_ranks.ranks = embedding.ranks;
  const TTMCores table_train = TTMCores::add(store, "tokens", table_with_ranks, 1);
  store.allocate(host_allocator(), DType::float64, false);
  store.initialize(1);
  for (int k = 0; k < shape.order(); ++k) write_tensor(store.value(train.cores[k]), linear.cores[k]);
  for (int k = 0; k < table_shape.order(); ++k)
    write_tensor(store.value(table_train.cores[k]), embedding.cores[k]);
  EXPECT_LT(relative_error(by_definition(store, train), matrix), 1e-14);
  std::vector<double> rows = by_definition(store, "tokens", table_with_ranks);
  for (std::int64_t i = vocabulary * width; i < std::ssize(rows); ++i) EXPECT_NEAR(rows[i], 0, 1e-13);
  rows.resize(vocabulary * width);
  EXPECT_LT(relative_error(rows, table), 1e-14);
}

}  // namespace
}  // namespace comera::test
