#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/ops/optimizers/optimizer.h"

namespace comera {

// Operations for LAMB and GaLore, which transform Adam's direction before they apply it. None of them does
// anything if StepResults::nonfinite is set.

// Turns gradients into Adam's directions (Kingma and Ba, 2015) in place; g = gradient * gradient_scale:
//   m = β1 m + (1-β1) g;   v = β2 v + (1-β2) g²;   direction = m / c1 / (sqrt(v / c2) + eps)
// or, with eps_before_correction, m sqrt(c2) / c1 / (sqrt(v) + eps); c = StepInputs' bias corrections.
struct AdamDirection {
  Tensor directions;        // flat, in and out
  Tensor moment1, moment2;  // flat, same length; a segment's moments begin at its `moments`
  Tensor segments;          // ParameterSegment (segment_count), as bytes; offsets are in directions
  std::int64_t segment_count = 0;
  std::int64_t elements = 0;  // in all segments
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool eps_before_correction = false;
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return directions.dtype(); }
  void check() const;
};

// The step length of LAMB (You et al., 2020, algorithm 2) for each tensor p with direction d:
//   d += decay p where decay applies;   ratio = ‖p‖ / ‖d‖, or 1 where either is 0
// Sums are in double over fixed pieces of each tensor, so that they do not depend on threads.
struct TrustRatios {
  Tensor parameters, directions;  // flat, same length; directions in and out
  Tensor segments;                // ParameterSegment (n), as bytes
  Tensor ratios;                  // out float64 (n)
  std::int64_t elements = 0;      // in all segments
  double weight_decay = 0;
  Tensor results;

  std::int64_t segment_count() const { return ratios.elements(); }
  DType compute() const { return parameters.dtype(); }
  void check() const;
};

// p -= rate factor d;   then p -= rate decay p where decay applies.
struct FollowDirections {
  Tensor parameters, directions;  // flat, same length; parameters in and out
  Tensor segments;                // ParameterSegment (n), as bytes
  Tensor factors;                 // float64 (n)
  std::int64_t elements = 0;      // in all segments
  double weight_decay = 0;
  Tensor step_inputs;
  Tensor results;

  std::int64_t segment_count() const { return factors.elements(); }
  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
