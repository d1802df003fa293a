#pragma once

#include <vector>

#include "kernels/ops/products/matrix_product.h"

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
  // Leading dimensions, in elements; zero: rows are adjacent.
  std::int64_t ldx = 0, lddy = 0, lddw = 0;

  MatrixProduct product() const;  // the first line
};

// What parts of the rows gave to a parameter, left by another operation: to += Σ over p of parts[p].
struct PartialSums {
  Tensor parts;  // flat memory of rows `apart` from one another, in the master type
  std::int64_t count = 0, apart = 0;
  Tensor to;  // in and out (columns)
};

// Gradients of several layers, which do not wait for one another: a GPU computes them at once. No two of them
// may add to the same memory.
struct WeightGradients {
  DType type = DType::float32;  // of x and dy
  std::vector<WeightGradient> gradients{};
  std::vector<PartialSums> sums{};

  bool empty() const { return gradients.empty() && sums.empty(); }
  DType compute() const { return type; }
  void check() const;
};

// An operation may leave partial sums of its parameters' gradients here, so that sums of several operations
// take one launch. `parts` is memory for most_parts x outputs x columns numbers of the master type, if it has
// so many `outputs` of `columns` numbers each. A backend that gains nothing by it leaves nothing and adds at
// once.
struct LaterSums {
  WeightGradients* sums = nullptr;  // null: nothing is left
  Tensor parts{};

  static constexpr std::int64_t most_parts = 264;  // two for each multiprocessor of an H100
  void check(const char* operation, std::int64_t outputs, std::int64_t columns, DType compute) const;
};

}  // namespace comera
