#pragma once

#include <vector>

#include "kernels/ops/matrix_product.h"

namespace comera {

// What the rows of a batch give to a weight and a bias of a linear layer:
//
//   dw += xᵀ dy;   dbias += column sums of dy
struct WeightGradient {
  Tensor x;      // (rows, inputs)
  Tensor dy;     // (rows, outputs)
  Tensor dw;     // in and out (inputs, outputs), in the master type
  Tensor dbias;  // in and out (outputs), in the master type, or left out; then dy may have gaps
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  // From a row to the next. Zero: rows are adjacent.
  std::int64_t x_apart = 0, dy_apart = 0, dw_apart = 0;

  MatrixProduct product() const;  // the first line
};

// Those of several layers, which do not wait for one another: a GPU computes them at once.
struct WeightGradients {
  std::vector<WeightGradient> gradients;  // at least one, all of one compute type

  DType compute() const { return gradients.front().x.dtype(); }
  void check() const;
};

}  // namespace comera
