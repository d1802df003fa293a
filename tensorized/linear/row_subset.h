#pragma once

#include <cstdint>

#include "kernels/core/tensors/tensor.h"

namespace comera {

struct Context;

// Some rows of a micro-batch's tokens: those that what follows reads.
struct RowSubset {
  Tensor indices;         // int32, at least `most`; distinct below count
  Tensor count;           // int32 (1): how many are real
  std::int64_t most = 0;  // R: rows of what is gathered by it
  // If positive, they are the first so many tokens of each sequence, or some of those.
  std::int64_t of_each_sequence = 0;
};

// y (R, width) = the rows of x; 0 at and beyond count.
void gather(const Context& context, const RowSubset& rows, const Tensor& x, const Tensor& y);
// dx = the rows of dy (R, width) where they come from, 0 everywhere else.
void scatter(const Context& context, const RowSubset& rows, const Tensor& dy, const Tensor& dx);

}  // namespace comera
