#pragma once

#include "kernels/core/tensors/tensor.h"
#include "kernels/shared/muon.h"
#include "kernels/shared/step_values.h"

namespace comera {

// A row-major matrix within the flat parameter vector, and how the optimizer treats it.
struct MuonMatrix {
  std::int64_t offset = 0;
  std::int64_t elements_before = 0;  // of all matrices before it in the list
  std::int64_t squares_before = 0;   // the same of squares of their smaller sides
  std::int32_t rows = 0, columns = 0;
  std::int32_t group = 0;   // index of its learning rate
  std::int32_t decays = 0;  // 1: weight decay applies
};

// What a list of matrices takes, known to the host.
struct MuonSizes {
  std::int64_t count = 0;
  std::int64_t elements = 0;             // of all
  std::int64_t squares = 0;              // Σ smaller side²
  std::int64_t smaller = 0, larger = 0;  // the longest smaller side, the longest side
  std::int64_t largest = 0;              // elements of the largest matrix
  double operations = 0;                 // of all products

  // The next of the list: also fills in what lies before it.
  void append(MuonMatrix& matrix);
};

// Muon (Jordan et al., 2024) of all matrices at once; g = gradient * gradient_scale:
//   M = β M + (1-β) g;   X = β M + (1-β) g;   P -= rate (U + decay P)
// with U the orthogonalised X (kernels/shared/muon.h): its singular values are about 1, whatever the length
// of the gradient, so that a rate is by how much a step changes the matrix's product with any vector of
// length 1. It says the same for all sizes, and whether or not rows and columns of zeros are among those of
// X. Nothing but the decay happens where X is 0, nothing at all when StepResults::nonfinite is set.
struct Muon {
  Tensor parameters, gradients,
      momentum;     // flat, as long; momentum is read and written at the matrices alone
  Tensor matrices;  // MuonMatrix (sizes.count), as bytes
  MuonSizes sizes;
  double beta = 0.95, weight_decay = 0;
  Tensor step_inputs;
  Tensor results;

  DType compute() const { return parameters.dtype(); }
  void check() const;
};

}  // namespace comera
