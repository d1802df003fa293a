#include "data/clicks/synthetic_clicks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>

#include "data/clicks/click_scores.h"
#include "kernels/core/check.h"
#include "kernels/shared/philox.h"
#include "storage/hash.h"

namespace comera::data {

namespace {

// The purposes of random numbers. Different purposes never share a counter.
enum class Purpose : std::uint32_t { number, id, label, number_weight, row_weight, row, matrix, core };

// The stream of random bits of one entity: of example or row `item`, in column, table or core `part`.
class Stream {
 public:
  Stream(std::uint64_t seed, Purpose purpose, std::int64_t item, std::int64_t part)
      : key_(storage::mix64(storage::mix64(seed) + static_cast<std::uint64_t>(purpose))),
        item_(static_cast<std::uint64_t>(item)),
        part_(static_cast<std::uint32_t>(part)) {}

  // In [0, 1).
  double uniform() {
    if (used_ == 2) refill();
    const std::uint64_t high = block_.word[2 * used_], low = block_.word[2 * used_ + 1];
    ++used_;
    return storage::unit_interval(high << 32 | low);
  }

  // Box-Muller, two at a time.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log1p(-uniform())), angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  void refill() {
    block_ = philox(
        {{static_cast<std::uint32_t>(item_), static_cast<std::uint32_t>(item_ >> 32), part_, number_++}},
        key_);
    used_ = 0;
  }

  std::uint64_t key_, item_;
  std::uint32_t part_;
  std::uint32_t number_ = 0;  // of blocks made
  Philox4 block_{};
  int used_ = 2;  // of the two numbers of a block
  bool has_spare_ = false;
  double spare_ = 0;
};

std::vector<double> normals(Stream stream, std::int64_t count, double deviation = 1) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = deviation * stream.normal();
  return values;
}

std::int64_t product(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies<>());
}

void check(const SyntheticClicksOptions& options) {
  COMERA_CHECK(!options.heights.empty() && options.dense_features >= 0 && options.width > 0,
               "synthetic clicks need at least one table, rows of at least one number, and no negative count "
               "of numbers; there are {} tables, rows of {} and {} numbers",
               options.heights.size(), options.width, options.dense_features);
  for (const std::int64_t height : options.heights)
    COMERA_CHECK(height > 0 && height <= std::numeric_limits<std::int32_t>::max(),
                 "a table of {} rows cannot be; give each a height from 1 to {}", height,
                 std::numeric_limits<std::int32_t>::max());
  COMERA_CHECK(options.rows == PlantedRows::full_rank || options.rank > 0,
               "planted rows cannot have rank {}; give at least 1", options.rank);
  if (options.rows != PlantedRows::tensor_train) return;
  COMERA_CHECK(options.row_modes.size() == options.heights.size(),
               "planted tensor trains need the row modes of each of {} tables, those of {} came",
               options.heights.size(), options.row_modes.size());
  COMERA_CHECK(product(options.column_modes) == options.width,
               "the product of the column modes is {}, it must be the width {}",
               product(options.column_modes), options.width);
  for (std::size_t t = 0; t < options.heights.size(); ++t)
    COMERA_CHECK(
        options.row_modes[t].size() == options.column_modes.size() &&
            product(options.row_modes[t]) >= options.heights[t],
        "table {} has {} rows: its {} row modes have the product {}, which must be at least that, and "
        "there must be {} of them, as many as column modes",
        t, options.heights[t], options.row_modes[t].size(), product(options.row_modes[t]),
        options.column_modes.size());
}

// log1p(x) / x and expm1(x) / x, with their limits at 0.
double log_ratio(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }
double exp_ratio(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }

}  // namespace

// Each k = 1 … count owns the area under x^−exponent between k − ½ and k + ½; the part below k + ½ with area
// k^−exponent is accepted. The area of 1 is cut so that all of it is accepted.
ZipfLaw::ZipfLaw(std::int64_t count, double exponent) : count_(count), exponent_(exponent) {
  COMERA_CHECK(count > 0 && exponent >= 0 && std::isfinite(exponent),
               "a law of {} ids with exponent {} cannot be", count, exponent);
  first_ = area(1.5) - 1;
  last_ = area(static_cast<double>(count) + 0.5);
  squeeze_ = 2 - inverse(area(2.5) - height(2));
}

double ZipfLaw::height(double x) const { return std::exp(-exponent_ * std::log(x)); }

double ZipfLaw::area(double x) const {
  const double log = std::log(x);
  return exp_ratio((1 - exponent_) * log) * log;
}

double ZipfLaw::inverse(double y) const {
  // Rounding may give less than −1, where the logarithm is undefined.
  const double t = std::max(y * (1 - exponent_), -1.0);
  return std::exp(log_ratio(t) * y);
}

bool ZipfLaw::accept(double uniform, std::int64_t& k) const {
  const double y = last_ + uniform * (first_ - last_);
  const double x = inverse(y);
  const std::int64_t rank = std::clamp(static_cast<std::int64_t>(std::llround(x)), std::int64_t{1}, count_);
  k = rank - 1;
  const auto value = static_cast<double>(rank);
  // The squeeze avoids the exact comparison in most cases.
  return value - x <= squeeze_ || y >= area(value + 0.5) - height(value);
}

SyntheticClicks::SyntheticClicks(SyntheticClicksOptions options) : options_(std::move(options)) {
  check(options_);
  const std::uint64_t seed = options_.seed;
  const std::int64_t width = options_.width, rank = options_.rank;
  for (const std::int64_t height : options_.heights) laws_.emplace_back(height, options_.exponent);
  number_weights_ = normals({seed, Purpose::number_weight, 0, 0}, options_.dense_features);
  row_weights_ = normals({seed, Purpose::row_weight, 0, 0}, tables() * width);
  for (std::int64_t t = 0; t < tables(); ++t) {
    if (options_.rows == PlantedRows::low_rank)
      matrices_.push_back(
          normals({seed, Purpose::matrix, 0, t}, width * rank, 1 / std::sqrt(static_cast<double>(rank))));
    if (options_.rows != PlantedRows::tensor_train) continue;
    std::vector<std::vector<double>>& cores = cores_.emplace_back();
    const std::size_t order = options_.column_modes.size();
    for (std::size_t k = 0; k < order; ++k) {
      const std::int64_t before = k == 0 ? 1 : rank, after = k + 1 == order ? 1 : rank;
      cores.push_back(normals({seed, Purpose::core, static_cast<std::int64_t>(k), t},
                              before * options_.row_modes[t][k] * options_.column_modes[k] * after,
                              1 / std::sqrt(static_cast<double>(before))));
    }
  }
}

// From left to right: the result so far is a matrix (columns so far x bond), which the next core's slice at
// the id's digit extends.
void SyntheticClicks::train_row(std::int64_t table, std::int64_t id, double* row) const {
  const std::vector<std::int64_t>& modes = options_.row_modes[table];
  std::int64_t slower = product(modes), columns = 1, bond = 1;
  std::vector<double> done = {1}, next;
  for (std::size_t k = 0; k < modes.size(); ++k) {
    slower /= modes[k];
    const std::int64_t digit = id / slower % modes[k];
    const std::int64_t mode = options_.column_modes[k], after = k + 1 == modes.size() ? 1 : options_.rank;
    next.assign(static_cast<std::size_t>(columns * mode * after), 0);
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t a = 0; a < bond; ++a) {
        const double* slice = cores_[table][k].data() + (a * modes[k] + digit) * mode * after;
        for (std::int64_t j = 0; j < mode * after; ++j)
          next[c * mode * after + j] += done[c * bond + a] * slice[j];
      }
    done.swap(next);
    columns *= mode;
    bond = after;
  }
  std::ranges::copy(done, row);
}

void SyntheticClicks::planted_row(std::int64_t table, std::int64_t id, double* row) const {
  if (options_.rows == PlantedRows::tensor_train) {
    train_row(table, id, row);
    return;
  }
  Stream stream(options_.seed, Purpose::row, id, table);
  if (options_.rows == PlantedRows::full_rank) {
    for (std::int64_t j = 0; j < options_.width; ++j) row[j] = stream.normal();
    return;
  }
  std::fill_n(row, options_.width, 0.0);
  const std::vector<double>& matrix = matrices_[table];
  for (std::int64_t r = 0; r < options_.rank; ++r) {
    const double code = stream.normal();
    for (std::int64_t j = 0; j < options_.width; ++j) row[j] += matrix[j * options_.rank + r] * code;
  }
}

// The dot products of all pairs sum to half of the difference between the square of the sum and the sum of
// squares.
double SyntheticClicks::logit(const float* dense_features, const std::int32_t* ids,
                              std::vector<double>& scratch) const {
  const std::int64_t width = options_.width;
  const auto count = static_cast<double>(tables()), wide = static_cast<double>(width);
  scratch.assign(static_cast<std::size_t>(2 * width), 0);
  double *row = scratch.data(), *sum = row + width;
  double number_term = 0, row_term = 0, squares = 0, square_of_sum = 0;
  for (std::int64_t i = 0; i < options_.dense_features; ++i)
    number_term += number_weights_[i] * dense_features[i];
  for (std::int64_t t = 0; t < tables(); ++t) {
    planted_row(t, ids[t], row);
    for (std::int64_t j = 0; j < width; ++j) {
      row_term += row_weights_[t * width + j] * row[j];
      squares += row[j] * row[j];
      sum[j] += row[j];
    }
  }
  for (std::int64_t j = 0; j < width; ++j) square_of_sum += sum[j] * sum[j];
  const double pair_term = (square_of_sum - squares) / 2, pairs = count * (count - 1) / 2;
  double logit = options_.bias + options_.row_scale * row_term / std::sqrt(count * wide);
  if (options_.dense_features > 0)
    logit += options_.number_scale * number_term / std::sqrt(static_cast<double>(options_.dense_features));
  if (pairs > 0) logit += options_.pair_scale * pair_term / std::sqrt(pairs * wide);
  return logit;
}

std::vector<double> SyntheticClicks::logits(const ClickExamples& examples) const {
  std::vector<double> logits(examples.labels.size()), scratch;
  for (std::int64_t i = 0; i < examples.count(); ++i)
    logits[i] = logit(examples.dense_features.data() + i * options_.dense_features,
                      examples.ids.data() + i * tables(), scratch);
  return logits;
}

void SyntheticClicks::make(std::int64_t first, std::int64_t count, ClickExamples& examples) const {
  examples.resize(count, options_.dense_features, tables());
  std::vector<double> scratch;
  for (std::int64_t i = 0; i < count; ++i) {
    float* dense_features = examples.dense_features.data() + i * options_.dense_features;
    std::int32_t* ids = examples.ids.data() + i * tables();
    Stream number(options_.seed, Purpose::number, first + i, 0);
    for (std::int64_t n = 0; n < options_.dense_features; ++n)
      dense_features[n] = static_cast<float>(number.normal());
    for (std::int64_t t = 0; t < tables(); ++t) {
      Stream stream(options_.seed, Purpose::id, first + i, t);
      ids[t] = static_cast<std::int32_t>(laws_[t].draw([&] { return stream.uniform(); }));
    }
    const double probability = click_probability(logit(dense_features, ids, scratch));
    examples.labels[i] = Stream(options_.seed, Purpose::label, first + i, 0).uniform() < probability ? 1 : 0;
  }
}

double SyntheticClicks::entropy(const ClickExamples& examples) const {
  COMERA_CHECK(examples.count() > 0, "there are no examples to take the entropy of");
  double sum = 0;
  for (const double logit : logits(examples)) sum += click_entropy(logit);
  return sum / static_cast<double>(examples.count());
}

}  // namespace comera::data
