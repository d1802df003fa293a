#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/clicks/click_examples.h"

namespace comera::data {

// Draws k of 0 … count − 1 with probability proportional to (k + 1)^−exponent, exactly but for rounding, in a
// few words of memory and about one trial per draw: rejection-inversion (Hörmann and Derflinger,
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

// What the rows of the planted embedding tables are made of. Each entry of a row has variance 1.
enum class PlantedRows : std::uint8_t {
  full_rank,     // independent normal numbers
  low_rank,      // a normal matrix (width x rank) times `rank` normal numbers of each row
  tensor_train,  // a tensor-train matrix of normal cores (r, row mode, column mode, r'), first digit slowest
};

struct SyntheticClicksOptions {
  std::uint64_t seed = 1;
  std::int64_t numbers = 13;
  std::vector<std::int64_t> heights;  // of each table
  double exponent = 1.05;             // of the law of ids: id 0 is the most frequent one; 0 is uniform

  std::int64_t width = 16;  // of the planted rows
  PlantedRows rows = PlantedRows::low_rank;
  std::int64_t rank = 4;                                  // of low_rank and tensor_train
  std::vector<std::vector<std::int64_t>> row_modes = {};  // of tensor_train, for each table: product ≥ height
  std::vector<std::int64_t> column_modes = {};            // of tensor_train, for all tables: product = width

  // The planted logit is bias + a linear term of the numbers + a linear term of the rows + the sum of the dot
  // products of all pairs of rows, each scaled such that it has about this standard deviation (over the
  // choice of the planted model; ids that come often make it vary).
  double bias = -1;
  double number_scale = 0.7;
  double row_scale = 1;
  double pair_scale = 0.7;
};

// Examples of clicks drawn from a known model, so that what a learner should reach is known. Example i is a
// function of the options and i: blocks can be made in any order and by any threads at once. Numbers are
// standard normal. Ids and labels depend on the last digits of exp(), log() and the like, which differ
// between C libraries.
class SyntheticClicks {
 public:
  explicit SyntheticClicks(SyntheticClicksOptions options);

  const SyntheticClicksOptions& options() const { return options_; }
  std::int64_t tables() const { return static_cast<std::int64_t>(options_.heights.size()); }

  // Examples first … first + count − 1.
  void make(std::int64_t first, std::int64_t count, ClickExamples& examples) const;
  // The planted logits of examples, whatever they were drawn from.
  std::vector<double> logits(const ClickExamples& examples) const;
  // The mean entropy of the labels of examples: the log loss that is expected of the planted model itself,
  // and that no learner can go below but by chance.
  double entropy(const ClickExamples& examples) const;

  // One row of a planted table: `width` numbers.
  void planted_row(std::int64_t table, std::int64_t id, double* row) const;

 private:
  void train_row(std::int64_t table, std::int64_t id, double* row) const;
  double logit(const float* numbers, const std::int32_t* ids, std::vector<double>& scratch) const;

  SyntheticClicksOptions options_;
  std::vector<ZipfLaw> laws_;                            // of each table
  std::vector<double> number_weights_;                   // of each number
  std::vector<double> row_weights_;                      // tables x width
  std::vector<std::vector<double>> matrices_;            // of low_rank: of each table, width x rank
  std::vector<std::vector<std::vector<double>>> cores_;  // of tensor_train: of each table
};

}  // namespace comera::data
