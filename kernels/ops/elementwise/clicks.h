#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// Operations of a click model besides linear layers and tables (DLRM: Naumov et al., 2019). B examples; those
// at and beyond `count` are padding.

// A bag's mean from its sum: x[b] /= the number of ids of bag b; empty bags stay 0. The gradient is the same
// operation.
struct DivideBags {
  Tensor x;        // in and out (B, D)
  Tensor offsets;  // int32 (B + 1): bag b has ids [offsets[b], offsets[b + 1])

  DType compute() const { return x.dtype(); }
  void check() const;
};

// The dot products of the F + 1 vectors x_0, x_1, … of each example: y[b] = [x_0, x_1·x_0, x_2·x_0, x_2·x_1,
// …].
struct DotInteractionForward {
  Tensor first;   // (B, D): x_0
  Tensor others;  // (F, B, D)
  Tensor y;       // out (B, D + F (F + 1) / 2)

  DType compute() const { return first.dtype(); }
  void check() const;
};

// dx_i = Σ_{j ≠ i} dy[i·j] x_j, plus the first D of dy for i = 0.
struct DotInteractionBackward {
  Tensor first, others;    // as above
  Tensor dy;               // (B, D + F (F + 1) / 2)
  Tensor dfirst, dothers;  // out

  DType compute() const { return first.dtype(); }
  void check() const;
};

// Binary cross-entropy: Σ_b log(1 + exp(z_b)) - y_b z_b over b below count, computed so that a large z does
// not overflow. With gradient, z becomes 1 / (1 + exp(-z)) - y, and 0 beyond count. A prediction is correct
// if z is above 0 where the label is 1, or not above 0 where it is 0.
//
// With `targets` the loss is added to one of that many targets: its mean over the examples counts `factor`
// times for each of them, so that loss and gradient are multiplied by factor targets / count. Then the
// examples are no targets themselves, and results.detection has their sums.
struct BinaryCrossEntropy {
  Tensor logits;        // in and, with gradient, out (B, 1)
  Tensor labels;        // float32 (B): 0 or 1
  Tensor count;         // int32 (1)
  Tensor targets = {};  // int32 (1), or left out
  double factor = 1;
  bool gradient = false;
  Tensor results;  // StepResults: adds loss, count and correct predictions

  DType compute() const { return logits.dtype(); }
  void check() const;
};

}  // namespace comera
