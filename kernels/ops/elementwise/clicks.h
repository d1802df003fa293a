#pragma once

#include "kernels/core/tensors/tensor.h"

namespace comera {

// What a click model needs beside linear layers and tables (DLRM: Naumov et al., 2019). B examples; those at
// and beyond `count` are padding.

// A bag's mean from its sum: x[b] /= the number of ids of bag b; empty bags stay 0. Its own gradient.
struct DivideBags {
  Tensor x;        // in and out (B, D)
  Tensor offsets;  // int32 (B + 1): bag b has ids [offsets[b], offsets[b + 1])

  DType compute() const { return x.dtype(); }
  void check() const;
};

// F + 1 vectors x_0, x_1, … of each example, and how they agree: y[b] = [x_0, x_1·x_0, x_2·x_0, x_2·x_1, …].
struct DotInteractionForward {
  Tensor first;   // (B, D): x_0
  Tensor others;  // (F, B, D)
  Tensor y;       // out (B, D + F (F + 1) / 2)

  DType compute() const { return first.dtype(); }
  void check() const;
};

// dx_i = Σ_{j ≠ i} dy[i·j] x_j, and for i = 0 the first D of dy besides.
struct DotInteractionBackward {
  Tensor first, others;    // as above
  Tensor dy;               // (B, D + F (F + 1) / 2)
  Tensor dfirst, dothers;  // out

  DType compute() const { return first.dtype(); }
  void check() const;
};

// Cross-entropy of a yes or no: Σ_b log(1 + exp(z_b)) - y_b z_b over b below count, computed such that no
// large z overflows. With gradient, z becomes 1 / (1 + exp(-z)) - y, and 0 beyond count. An answer counts as
// correct if z is above 0 where the label is 1, or not above 0 where it is 0.
struct BinaryCrossEntropy {
  Tensor logits;  // in and, with gradient, out (B, 1)
  Tensor labels;  // float32 (B): 0 or 1
  Tensor count;   // int32 (1)
  bool gradient = false;
  Tensor results;  // StepResults: loss, count and correct answers are added

  DType compute() const { return logits.dtype(); }
  void check() const;
};

}  // namespace comera
