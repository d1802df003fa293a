#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/clicks/click_examples.h"

namespace comera::data {

// Draws k from 0 … count − 1 with probability proportional to (k + 1)^−exponent, exactly except for rounding,
// with a few words of memory and about one trial per draw: rejection-inversion (Hörmann and Derflinger,
// "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
class ZipfLaw {
 public:
  ZipfLaw(std::int64_t count, double exponent);

  // uniform() gives the next number in [0, 1) of a stream.
  template <class Uniform>
  std::int64_t draw(Uniform&& uniform) const {
    for (;;) {
      std::int64_t k = 0;
      if (accept(uniform(), k)) return k;
    }
  }

 private:
  bool accept(double uniform, std::int64_t& k) const;
  double height(double x) const;   // x^−exponent
  double area(double x) const;     // the integral of height from 1
  double inverse(double y) const;  // of area

  std::int64_t count_;
  double exponent_, first_, last_, squeeze_;
};

// The structure of the planted embedding tables' rows. Each entry of a row has variance 1.
enum class PlantedRows : std::uint8_t {
  full_rank,     // independent normal numbers
  low_rank,      // a normal matrix (width x rank) times `rank` normal numbers per row
  tensor_train,  // a tensor-train matrix of normal cores (r, row mode, column mode, r'), first digit slowest
};

struct SyntheticClicksOptions {
  std::uint64_t seed = 1;
  std::int64_t dense_features = 13;
  std::vector<std::int64_t> heights;  // per table
  double exponent = 1.05;  // of the distribution of ids: id 0 is the most frequent one; 0 is uniform

  std::int64_t width = 16;  // of the planted rows
  PlantedRows rows = PlantedRows::low_rank;
  std::int64_t rank = 4;                                  // for low_rank and tensor_train
  std::vector<std::vector<std::int64_t>> row_modes = {};  // for tensor_train, per table: product ≥ height
  std::vector<std::int64_t> column_modes = {};            // for tensor_train, for all tables: product = width

  // The planted logit is bias + a linear term of the numeric features + a linear term of the rows + the sum
  // of the dot products of all pairs of rows. Each is scaled to about this standard deviation (over the
  // choice of the planted model; frequent ids cause variation).
  double bias = -1;
  double number_scale = 0.7;
  double row_scale = 1;
  double pair_scale = 0.7;
};

// Examples of clicks drawn from a known model, so that the best reachable score is known. Example i is a
// function of the options and i: blocks can be made in any order and by several threads at once. Numeric
// features are standard normal. Ids and labels depend on the last digits of exp(), log() and the like, which
// differ between C libraries.
class SyntheticClicks {
 public:
  explicit SyntheticClicks(SyntheticClicksOptions options);

  const SyntheticClicksOptions& options() const { return options_; }
  std::int64_t tables() const { return static_cast<std::int64_t>(options_.heights.size()); }

  // Examples first … first + count − 1.
  void make(std::int64_t first, std::int64_t count, ClickExamples& examples) const;
  // The planted logits of any examples.
  std::vector<double> logits(const ClickExamples& examples) const;
  // The mean entropy of the examples' labels: the expected log loss of the planted model, which no learner
  // can beat except by chance.
  double entropy(const ClickExamples& examples) const;

  // One row of a planted table: `width` numbers.
  void planted_row(std::int64_t table, std::int64_t id, double* row) const;

 private:
  void train_row(std::int64_t table, std::int64_t id, double* row) const;
  double logit(const float* dense_features, const std::int32_t* ids, std::vector<double>& scratch) const;

  SyntheticClicksOptions options_;
  std::vector<ZipfLaw> laws_;                            // per table
  std::vector<double> number_weights_;                   // per numeric feature
  std::vector<double> row_weights_;                      // tables x width
  std::vector<std::vector<double>> matrices_;            // for low_rank: per table, width x rank
  std::vector<std::vector<std::vector<double>>> cores_;  // for tensor_train: per table
};

}  // namespace comera::data
