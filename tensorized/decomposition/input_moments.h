#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Decompositions that keep what a layer says about the inputs that it meets, instead of its matrix: weights
// are multiplied by the root of the inputs' covariance before the SVD (Yuan et al., 2023, arXiv 2312.05821;
// Wang et al., 2024, arXiv 2403.07378). docs/guide/compaction.md, "By activations".
namespace comera {

// Mean and covariance of the rows that a layer reads, over a sample of texts.
class InputMoments {
 public:
  explicit InputMoments(std::int64_t width);

  // rows: (any, width), row-major. scales: of each row, what its outputs are multiplied by later; a row
  // counts with the square.
  void add(std::span<const double> rows, std::span<const double> scales);

  std::vector<double> mean() const;
  // R (width × width) with Rᵀ R = the covariance, and a ten-thousandth of its mean variance on the diagonal:
  // directions that the sample never took still count a little. Error where nothing counts.
  std::vector<double> root() const;

 private:
  std::int64_t width_;
  double total_ = 0;                 // of squared scales
  std::vector<double> sums_, gram_;  // gram_: on and below the diagonal
};

// A matrix within few directions of its outputs.
struct OutputCut {
  std::vector<double> matrix = {};  // M' (n × m), of this rank
  std::int64_t rank = 1;
  double error = 0;     // |W - W'| / |W|, where W' is W in the same directions
  bool capped = false;  // the cap cut off more than the error
};

// M (n × m) by W (any rows × m), such as W = R M: M' = M V Vᵀ with the first r right singular vectors V of W.
// With R of above no other matrix of rank r changes centred inputs' products x M less, by their mean square.
// r ≥ 1 is the least with |W - W V Vᵀ| ≤ error |W|, or the cap.
OutputCut cut_outputs(std::span<const double> matrix, std::span<const double> weighted, std::int64_t outputs,
                      double error, std::int64_t cap);

}  // namespace comera
