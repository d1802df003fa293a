#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/muon.h"
#include "kernels/shared/step_values.h"

namespace comera {

// A row-major matrix within the flat parameter vector, and how the optimizer treats it.
struct MuonMatrix {
  std::int64_t offset = 0;
  std::int64_t elements_before = 0;  // total of all earlier matrices in the list
  std::int64_t squares_before = 0;   // total of the squared smaller sides
  std::int32_t rows = 0, columns = 0;
  std::int32_t group = 0;   // index of its learning rate
  std::int32_t decays = 0;  // 1: weight decay applies
};

// The total sizes of a list of matrices, known to the host.
struct MuonSizes {
  std::int64_t count = 0;
  std::int64_t elements = 0;             // in total
  std::int64_t squares = 0;              // Σ smaller side²
  std::int64_t smaller = 0, larger = 0;  // the longest smaller side, the longest side
  std::int64_t largest = 0;              // elements of the largest matrix
  double operations = 0;                 // of all products

  // Appends the next matrix and sets its `before` totals.
  void append(MuonMatrix& matrix);
};

// Muon (Jordan et al., 2024) for all matrices at once; g = gradient * gradient_scale:
//   M = β M + (1-β) g;   X = β M + (1-β) g;   P -= rate (U + decay P)
// with U the orthogonalised X (kernels/shared/muon.h). Its singular values are about 1, whatever the length
// of the gradient, so the rate is the change in the matrix's product with any vector of length 1. It means
// the same for all sizes, whether or not X has rows and columns of zeros. Where X is 0, only the decay
// applies; if StepResults::nonfinite is set, nothing happens.
struct Muon {
  Tensor parameters, gradients,
      momentum;     // flat, same length; only the matrices' momentum is used
  Tensor matrices;  // MuonMatrix (sizes.count), as bytes
  MuonSizes sizes;
  double beta = 0.95, weight_decay = 0;
  // Whether operands of the products may be rounded to the sum of two bfloat16 numbers, where a backend is
  // quicker so. Entries of U then err by up to 3e-3 of the largest.
  bool rounds = false;
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
