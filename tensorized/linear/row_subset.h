#pragma once

#include <cstdint>

#include "kernels/core/tensors/tensor.h"

namespace comera {

struct Context;

// A subset of the rows of a micro-batch's tokens: the rows that later operations read.
struct RowSubset {
  Tensor indices;         // int32, at least `most`; distinct below count
  Tensor count;           // int32 (1): number of valid entries
  std::int64_t most = 0;  // R: rows of a gathered tensor
  // If positive, the rows are the first `of_each_sequence` tokens of each sequence, or some of them.
  std::int64_t of_each_sequence = 0;
};

// y (R, width) = the rows of x; 0 at and beyond count.
void gather(const Context& context, const RowSubset& rows, const Tensor& x, const Tensor& y);
// dx = the rows of dy (R, width) at their original positions, 0 everywhere else.
void scatter(const Context& context, const RowSubset& rows, const Tensor& dy, const Tensor& dx);

}  // namespace comera
