#pragma once

#include <vector>

#include "kernels/core/device.h"
#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

// Products of matrices too small to fill a GPU: independent ones share a launch.

// A float32 matrix. Element (i, j) is at offset ld i + apart (j / group) + j % group: `group` columns are
// adjacent, groups have stride `apart`. gate (group), if given, is multiplied in. In a batch, matrices have
// stride `next`.
struct Matrix {
  float* data = nullptr;
  const float* gate = nullptr;
  int ld = 0, group = 0, apart = 0, next = 0;
};

// c = op(a) op(b), or c +=.
struct SmallProduct {
  Matrix a, b, c;
  int m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  int batch = 1;
  int blocks_across = 0, blocks = 0;  // for one c of the batch; set by Waves
};

// Converts a size or stride to the kernels' integer type; throws Error if it is too large.
int narrow(std::int64_t size);
// A matrix without gaps.
Matrix rows_of(float* data, std::int64_t columns);

// Products in the order of their waves: each wave waits for the previous ones.
class Waves {
 public:
  void add(int wave, const SmallProduct& product);
  void launch(const Stream& stream) const;

 private:
  std::vector<std::vector<SmallProduct>> waves_;
};

}  // namespace comera::COMERA_CUDA
