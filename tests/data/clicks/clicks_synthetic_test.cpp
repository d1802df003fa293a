#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "data/clicks/click_scores.h"
#include "data/clicks/synthetic_clicks.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::HasSubstr;

SyntheticClicksOptions small_options() { return {.seed = 3, .heights = {1000, 7, 1, 200000}}; }

std::vector<double> exact_law(std::int64_t count, double exponent) {
  std::vector<double> law(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) law[k] = std::pow(static_cast<double>(k + 1), -exponent);
  const double sum = std::accumulate(law.begin(), law.end(), 0.0);
  for (double& p : law) p /= sum;
  return law;
}

// (χ² − degrees of freedom) / its standard deviation, of values that are expected at least ten times; the
// others are taken together.
double chi_square(const std::vector<double>& law, const std::vector<std::int64_t>& counts) {
  const auto n = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double square = 0, rest = 0, rest_count = 0;
  int cells = 0;
  const auto add = [&](double expected, double count) {
    square += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t k = 0; k < law.size(); ++k)
    if (law[k] * n >= 10) {
      add(law[k] * n, static_cast<double>(counts[k]));
    } else {
      rest += law[k] * n;
      rest_count += static_cast<double>(counts[k]);
    }
  if (rest >= 10) add(rest, rest_count);
  const double freedom = std::max(cells - 1, 1);
  return (square - freedom) / std::sqrt(2 * freedom);
}

TEST(ZipfLaw, HasTheExactFrequencies) {
  constexpr int draws = 400000;
  for (const double exponent : {0.0, 0.5, 0.99, 1.0, 1.0000001, 1.05, 2.0, 6.0})
    for (const std::int64_t count : {1, 2, 3, 100, 50000}) {
      const ZipfLaw law(count, exponent);
      std::mt19937_64 random(count);
      std::vector<std::int64_t> counts(static_cast<std::size_t>(count));
      for (int i = 0; i < draws; ++i)
        ++counts.at(law.draw([&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; }));
      EXPECT_LT(std::abs(chi_square(exact_law(count, exponent), counts)), 5) << count << ", " << exponent;
    }
}

TEST(ZipfLaw, TakesFewTrials) {
  for (const double exponent : {0.0, 1.0, 1.05, 3.0})
    for (const std::int64_t count : {2, 1000, 2147483647}) {
      const ZipfLaw law(count, exponent);
      std::mt19937_64 random(1);
      int trials = 0;
      for (int i = 0; i < 20000; ++i) {
        const std::int64_t k = law.draw([&] {
          ++trials;
          return static_cast<double>(random() >> 11) * 0x1.0p-53;
        });
        ASSERT_TRUE(k >= 0 && k < count);
      }
      EXPECT_LT(trials, 30000) << count << ", " << exponent;
    }
  EXPECT_THAT(test::error_of([] { ZipfLaw(0, 1); }), HasSubstr("0 ids"));
}

TEST(SyntheticClicks, AnExampleIsTheSameInAnyBlock) {
  const SyntheticClicks clicks(small_options());
  ClickExamples all, block;
  clicks.make(0, 300, all);
  for (const std::int64_t size : {1, 7, 128})
    for (std::int64_t first = 300 - size; first >= 0; first -= size) {
      clicks.make(first, size, block);
      for (std::int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(block.labels[i], all.labels[first + i]);
        for (int n = 0; n < 13; ++n)
          ASSERT_EQ(block.dense_features[13 * i + n], all.dense_features[13 * (first + i) + n]);
        for (int t = 0; t < 4; ++t) ASSERT_EQ(block.ids[4 * i + t], all.ids[4 * (first + i) + t]);
      }
    }
  clicks.make((std::int64_t{1} << 40) + 5, 1, block);
  EXPECT_NE(block.dense_features[0], all.dense_features[13 * 5]);
}

TEST(SyntheticClicks, SeedsDiffer) {
  SyntheticClicksOptions options = small_options();
  ClickExamples a, b;
  SyntheticClicks(options).make(0, 100, a);
  options.seed = 4;
  SyntheticClicks(options).make(0, 100, b);
  EXPECT_NE(a.dense_features, b.dense_features);
  EXPECT_NE(a.ids, b.ids);
  EXPECT_NE(a.labels, b.labels);
}

TEST(SyntheticClicks, NumbersAreNormalAndIdsFollowTheLaw) {
  SyntheticClicksOptions options = small_options();
  options.width = 1;
  options.rank = 1;
  const SyntheticClicks clicks(options);
  constexpr std::int64_t count = 100000;
  ClickExamples examples;
  clicks.make(0, count, examples);
  double sum = 0, squares = 0, fourth = 0, product = 0;
  for (std::size_t i = 0; i < examples.dense_features.size(); ++i) {
    const double x = examples.dense_features[i];
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    if (i > 0) product += x * examples.dense_features[i - 1];
  }
  const auto n = static_cast<double>(examples.dense_features.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(product / n, 0, 5 / std::sqrt(n));
  for (int t = 0; t < 4; ++t) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(options.heights[t]));
    for (std::int64_t i = 0; i < count; ++i) ++counts.at(examples.ids[4 * i + t]);
    EXPECT_LT(std::abs(chi_square(exact_law(options.heights[t], options.exponent), counts)), 5) << t;
  }
  // Ids of two tables do not tell of one another.
  double first = 0, second = 0, both = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool a = examples.ids[4 * i] < 5, b = examples.ids[4 * i + 1] < 1;
    first += a;
    second += b;
    both += a && b;
  }
  EXPECT_NEAR(both / count, first / count * second / count, 5 * 0.25 / std::sqrt(count));
}

// The formula of the header, without the short cut for pairs.
TEST(SyntheticClicks, TheLogitIsWhatIsPlanted) {
  SyntheticClicksOptions options = small_options();
  options.number_scale = options.row_scale = 0;
  const SyntheticClicks clicks(options);
  ClickExamples examples;
  clicks.make(0, 50, examples);
  const std::vector<double> logits = clicks.logits(examples);
  for (std::int64_t i = 0; i < 50; ++i) {
    std::vector<std::vector<double>> rows(4, std::vector<double>(16));
    double pairs = 0;
    for (int t = 0; t < 4; ++t) clicks.planted_row(t, examples.ids[4 * i + t], rows[t].data());
    for (int t = 0; t < 4; ++t)
      for (int s = 0; s < t; ++s)
        pairs += std::inner_product(rows[t].begin(), rows[t].end(), rows[s].begin(), 0.0);
    EXPECT_NEAR(logits[i], options.bias + options.pair_scale * pairs / std::sqrt(6.0 * 16), 1e-12);
  }
}

TEST(SyntheticClicks, TermsHaveTheirScale) {
  for (const PlantedRows rows : {PlantedRows::full_rank, PlantedRows::low_rank, PlantedRows::tensor_train}) {
    for (int term = 0; term < 3; ++term) {
      double squares = 0, count = 0;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SyntheticClicksOptions options = {.seed = seed, .heights = std::vector<std::int64_t>(6, 1000)};
        options.exponent = 0;
        options.rows = rows;
        options.row_modes.assign(6, {10, 10, 10});
        options.column_modes = {4, 2, 2};
        options.bias = 0;
        options.number_scale = term == 0 ? 2 : 0;
        options.row_scale = term == 1 ? 2 : 0;
        options.pair_scale = term == 2 ? 2 : 0;
        const SyntheticClicks clicks(options);
        ClickExamples examples;
        clicks.make(0, 200, examples);
        for (const double logit : clicks.logits(examples)) {
          squares += logit * logit;
          count += 1;
        }
      }
      EXPECT_NEAR(std::sqrt(squares / count), 2, 0.6) << static_cast<int>(rows) << ", " << term;
    }
  }
}

TEST(SyntheticClicks, LabelsAreDrawnFromTheLogits) {
  const SyntheticClicks clicks(small_options());
  constexpr std::int64_t count = 60000;
  ClickExamples examples;
  clicks.make(1000, count, examples);
  const std::vector<double> logits = clicks.logits(examples);
  // Of all, and of examples with about the same probability.
  std::vector<double> probability(11), labels(11), variance(11);
  for (std::int64_t i = 0; i < count; ++i) {
    const double p = click_probability(logits[i]);
    for (const int bin : {static_cast<int>(10 * p), 10}) {
      probability[bin] += p;
      labels[bin] += examples.labels[i];
      variance[bin] += p * (1 - p);
    }
  }
  for (int bin = 0; bin <= 10; ++bin)
    EXPECT_NEAR(labels[bin], probability[bin], 4.5 * std::sqrt(variance[bin]) + 1e-9) << bin;
}

TEST(SyntheticClicks, TheEntropyIsTheFloor) {
  const SyntheticClicks clicks(small_options());
  constexpr std::int64_t count = 60000;
  ClickExamples examples;
  clicks.make(0, count, examples);
  std::vector<double> logits = clicks.logits(examples);
  const double floor = clicks.entropy(examples);
  const ClickScores planted = click_scores(logits, examples.labels);
  EXPECT_NEAR(planted.loss, floor, 0.01);
  EXPECT_LT(planted.normalised_entropy, 0.95);
  EXPECT_GT(planted.auc, 0.65);
  for (double& logit : logits) logit *= 1.2;
  EXPECT_GT(click_scores(logits, examples.labels).loss, planted.loss);
}

// Rows whose digits differ in one place only: for a tensor train of rank r the matrix of its rows, by first
// digit and by all else, has rank r at most, and that of independent rows does not.
double residual_beyond_rank(const SyntheticClicks& clicks, std::int64_t first, std::int64_t rest,
                            std::int64_t width, std::int64_t leading, std::int64_t rank) {
  // (first digit, leading column digit) x (other digits, other column digits), by elimination with pivots.
  const std::int64_t others = width / leading, height = first * leading, breadth = rest * others;
  std::vector<std::vector<double>> matrix(height, std::vector<double>(breadth));
  std::vector<double> row(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < first * rest; ++i) {
    clicks.planted_row(0, i, row.data());
    for (std::int64_t j = 0; j < width; ++j)
      matrix[i / rest * leading + j / others][i % rest * others + j % others] = row[j];
  }
  for (std::int64_t step = 0;; ++step) {
    std::int64_t at_row = 0, at_column = 0;
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < breadth; ++j)
        if (std::abs(matrix[i][j]) > std::abs(matrix[at_row][at_column])) at_row = i, at_column = j;
    if (step == rank) return std::abs(matrix[at_row][at_column]);
    const std::vector<double> pivot = matrix[at_row];
    for (std::int64_t i = 0; i < height; ++i) {
      const double factor = matrix[i][at_column] / pivot[at_column];
      for (std::int64_t j = 0; j < breadth; ++j) matrix[i][j] -= factor * pivot[j];
    }
  }
}

TEST(SyntheticClicks, PlantedTrainsHaveTheirRank) {
  SyntheticClicksOptions options = {.seed = 5, .heights = {70}};
  options.width = 12;
  options.rank = 3;
  options.rows = PlantedRows::tensor_train;
  options.row_modes = {{6, 4, 3}};
  options.column_modes = {2, 3, 2};
  const SyntheticClicks train(options);
  EXPECT_LT(residual_beyond_rank(train, 6, 12, 12, 2, 3), 1e-12);  // after the first core
  EXPECT_GT(residual_beyond_rank(train, 6, 12, 12, 2, 2), 1e-3);
  EXPECT_LT(residual_beyond_rank(train, 24, 3, 12, 6, 3), 1e-12);  // after the second
  EXPECT_GT(residual_beyond_rank(train, 24, 3, 12, 6, 2), 1e-3);
  options.rows = PlantedRows::low_rank;
  const SyntheticClicks low(options);
  EXPECT_LT(residual_beyond_rank(low, 72, 1, 12, 1, 3), 1e-12);  // rows x width
  EXPECT_GT(residual_beyond_rank(low, 72, 1, 12, 1, 2), 1e-3);
  options.rows = PlantedRows::full_rank;
  EXPECT_GT(residual_beyond_rank(SyntheticClicks(options), 72, 1, 12, 1, 11), 1e-3);
}

TEST(SyntheticClicks, RefusesOptionsThatCannotBe) {
  const auto error = [](auto&& change) {
    SyntheticClicksOptions options = small_options();
    change(options);
    return test::error_of([&] { SyntheticClicks clicks(options); });
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& o) { o.heights.clear(); }), HasSubstr("at least one table"));
  EXPECT_THAT(error([](auto& o) { o.heights[1] = 0; }), HasSubstr("a table of 0 rows"));
  EXPECT_THAT(error([](auto& o) { o.rank = 0; }), HasSubstr("rank 0"));
  EXPECT_THAT(error([](auto& o) { o.exponent = -1; }), HasSubstr("exponent -1"));
  EXPECT_THAT(error([](auto& o) { o.rows = PlantedRows::tensor_train; }),
              HasSubstr("row modes of each of 4"));
  EXPECT_THAT(error([](auto& o) {
                o.rows = PlantedRows::tensor_train;
                o.row_modes.assign(4, {10, 10});
                o.column_modes = {4, 4};
              }),
              HasSubstr("table 0 has 1000 rows: its 2 row modes have the product 100"));
  EXPECT_THAT(error([](auto& o) {
                o.rows = PlantedRows::tensor_train;
                o.row_modes.assign(4, {500, 500});
                o.column_modes = {4, 5};
              }),
              HasSubstr("the product of the column modes is 20, it must be the width 16"));
}

}  // namespace
}  // namespace comera::data
