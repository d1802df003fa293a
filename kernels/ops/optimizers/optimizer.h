#pragma once

#include <limits>

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// A tensor's place in the flat parameter vector, and how the optimizer treats it.
struct ParameterSegment {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int32_t group = 0;    // index of its learning rate
  std::int32_t decays = 0;   // 1: weight decay applies
  std::int64_t moments = 0;  // where its moments begin, in flat vectors of their own
  // Of a table of which a step changes the rows that it has looked up and no others: the numbers of a row,
  // and where the rows' marks begin in the flat vector of marks. Otherwise 0.
  std::int64_t width = 0;
  std::int64_t marks = 0;
};

// Rows of a table that a step looks up: marks[ids[u]] = 1 for u below count.
struct TouchRows {
  Tensor ids;    // int32 (U), distinct
  Tensor count;  // int32 (1)
  Tensor marks;  // in and out int32 (rows): 0 or 1
  DType parameters = DType::float32;

  DType compute() const { return parameters; }
  void check() const;
};

// The gradient of marked rows and their marks become 0: the others' are 0 already.
struct ClearTouchedRows {
  Tensor gradient;  // in and out (rows, width)
  Tensor marks;     // in and out int32 (rows)

  DType compute() const { return gradient.dtype(); }
  void check() const;
};

// A tensor's gradient, scaled, whose squares sum to more: second moments would become infinite, and its
// parameters would never move again.
inline constexpr double most_squared_norm = std::numeric_limits<float>::max();

// The norm of the whole gradient, divided by StepInputs::targets. Sums are in double over fixed pieces of
// each tensor, so that they do not depend on threads. Sets gradient_norm, gradient_scale (1 / targets, times
// max_norm / norm where clipping applies; 0 without targets), nonfinite (also for the loss, and for
// most_squared_norm) and first_nonfinite.
struct GradientNorm {
  Tensor gradients;  // flat
  Tensor segments;   // ParameterSegment (n), as bytes
  Tensor norms;      // out float64 (n): squared norm of each tensor, not divided
  Tensor marks;      // int32: of all rows of segments with a width, or left out without any
  Tensor step_inputs;
  Tensor results;  // StepResults

  std::int64_t segment_count() const { return norms.elements(); }
  DType compute() const { return gradients.dtype(); }
  void check() const;
};

// AdamW (Loshchilov and Hutter, 2019) over all tensors at once; g = gradient * gradient_scale:
//   m = β1 m + (1-β1) g;   v = β2 v + (1-β2) g²
//   p -= rate (m / c1 / (sqrt(v / c2) + eps) + decay p),   c = StepInputs' bias corrections
// Does nothing when StepResults::nonfinite is set. Of a segment with a width only marked rows are looked at:
// parameters and moments of the others stay, as in SparseAdam.
struct AdamW {
  Tensor parameters, gradients;  // flat, as long
  Tensor moment1, moment2;       // flat, as long, each segment's where it says
  Tensor segments;               // ParameterSegment (n), as bytes, by rising offset
  std::int64_t segment_count = 0;
  std::int64_t elements = 0;  // of all segments
  Tensor marks;               // int32: of all rows of segments with a width, or left out without any
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
