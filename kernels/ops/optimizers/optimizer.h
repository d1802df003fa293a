#pragma once

#include <limits>

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/step_values.h"

namespace comera {

// A tensor's range in the flat parameter vector, and how the optimizer treats it.
struct ParameterSegment {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int32_t group = 0;    // index of its learning rate
  std::int32_t decays = 0;   // 1: weight decay applies
  std::int64_t moments = 0;  // offset of its moments in their flat vectors
  // For a table of which a step updates only the looked-up rows: the width of a row, and the offset of the
  // rows' marks in the flat vector of marks. Otherwise 0.
  std::int64_t width = 0;
  std::int64_t marks = 0;
};

// Marks the table rows that a step looks up: marks[ids[u]] = 1 for u below count.
struct TouchRows {
  Tensor ids;    // int32 (U), distinct
  Tensor count;  // int32 (1)
  Tensor marks;  // in and out int32 (rows): 0 or 1
  DType parameters = DType::float32;

  DType compute() const { return parameters; }
  void check() const;
};

// Sets marked rows of the gradient and their marks to 0; all other rows are 0 already.
struct ClearTouchedRows {
  Tensor gradient;  // in and out (rows, width)
  Tensor marks;     // in and out int32 (rows)

  DType compute() const { return gradient.dtype(); }
  void check() const;
};

// The limit for the sum of squares of a tensor's scaled gradient. Beyond it, second moments would become
// infinite, and the parameters would never change again.
inline constexpr double most_squared_norm = std::numeric_limits<float>::max();

// The norm of the whole gradient, divided by StepInputs::targets. Sums are in double over fixed pieces of
// each tensor, so that they do not depend on threads. Sets gradient_norm, gradient_scale (1 / targets, times
// max_norm / norm where clipping applies; 0 without targets), nonfinite (also for the loss, and for
// most_squared_norm) and first_nonfinite.
struct GradientNorm {
  Tensor gradients;  // flat
  Tensor segments;   // ParameterSegment (n), as bytes
  Tensor norms;      // out float64 (n): squared norm of each tensor, not divided
  Tensor marks;      // int32: for all rows of segments with a width; left out if there are none
  Tensor step_inputs;
  Tensor results;  // StepResults

  std::int64_t segment_count() const { return norms.elements(); }
  DType compute() const { return gradients.dtype(); }
  void check() const;
};

// AdamW (Loshchilov and Hutter, 2019) over all tensors at once; g = gradient * gradient_scale:
//   m = β1 m + (1-β1) g;   v = β2 v + (1-β2) g²
//   p -= rate (m / c1 / (sqrt(v / c2) + eps) + decay p),   c = StepInputs' bias corrections
// Does nothing if StepResults::nonfinite is set. In a segment with a width, only marked rows are processed:
// parameters and moments of the others are unchanged, as in SparseAdam.
struct AdamW {
  Tensor parameters, gradients;  // flat, same length
  Tensor moment1, moment2;       // flat, same length; a segment's moments begin at its `moments`
  Tensor segments;               // ParameterSegment (n), as bytes, by increasing offset
  std::int64_t segment_count = 0;
  std::int64_t elements = 0;  // in all segments
  Tensor marks;               // int32: for all rows of segments with a width; left out if there are none
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

// An exponential moving average of parameters after their update, a += w (p - a), w = StepInputs'
// average_weight. A parameter that is exactly 0 was pruned or has never changed, and so has its average. Does
// nothing if StepResults::nonfinite is set.
struct AverageParameters {
  Tensor parameters;  // flat
  Tensor average;     // in and out, as parameters
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
