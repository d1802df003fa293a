#pragma once

#include "kernels/core/tensor.h"

namespace comera {

// y[s] = the mean of x[t] over the tokens t of sequence s for s below count, 0 beyond.
struct SequenceMean {
  Tensor x;        // (T, width)
  Tensor offsets;  // int32 (S + 1): sequence s is rows [offsets[s], offsets[s + 1])
  Tensor count;    // int32 (1)
  Tensor y;        // out (S, width)

  DType compute() const { return x.dtype(); }
  void check() const;
};

// Squared error of one prediction per sequence: loss = Σ_s (p_s - y_s)² over s below count. With gradient, p
// becomes 2 (p - y), and 0 beyond count.
struct SquaredError {
  Tensor predictions;  // in and, with gradient, out (S, 1)
  Tensor scores;       // float32 (S)
  Tensor count;        // int32 (1)
  bool gradient = false;
  Tensor results;  // StepResults: loss and count are added

  DType compute() const { return predictions.dtype(); }
  void check() const;
};

}  // namespace comera
