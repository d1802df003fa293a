#pragma once

#include <vector>

#include "kernels/ops/products/matrix_product.h"

namespace comera {

// The contribution of a batch's rows to the gradients of a linear layer's weight and bias:
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

// Partial sums of a parameter's gradient over parts of the rows, left by another operation: to += Σ over p of
// parts[p].
struct PartialSums {
  Tensor parts;  // flat memory with row stride `apart`, in the master type
  std::int64_t count = 0, apart = 0;
  Tensor to;  // in and out (columns)
};

// Independent gradients of several layers: a GPU computes them at once. No two of them may add to the same
// memory.
struct WeightGradients {
  DType type = DType::float32;  // of x and dy
  std::vector<WeightGradient> gradients{};
  std::vector<PartialSums> sums{};

  bool empty() const { return gradients.empty() && sums.empty(); }
  DType compute() const { return type; }
  void check() const;
};

// An operation may leave partial sums of its parameters' gradients here, so that one launch completes the
// sums of several operations. `parts` is memory for most_parts x outputs x columns values of the master type,
// if the operation has `outputs` outputs of `columns` values each. A backend that gains nothing from this
// adds at once.
struct LaterSums {
  WeightGradients* sums = nullptr;  // null: add at once
  Tensor parts{};

  static constexpr std::int64_t most_parts = 264;  // two for each multiprocessor of an H100
  void check(const char* operation, std::int64_t outputs, std::int64_t columns, DType compute) const;
};

}  // namespace comera
