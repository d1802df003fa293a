#pragma once

#include <vector>

#include "kernels/core/device.h"
#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

// Products of matrices that are too small to fill a GPU by themselves: those that do not wait for one another
// are one launch.

// Numbers in float32. Element (i, j) lies ld i + apart (j / group) + j % group behind the first: `group`
// columns are adjacent, groups are `apart` elements apart. gate (group), if there is one, is multiplied in.
// Of a batch, matrices lie `next` elements apart.
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
  int blocks_across = 0, blocks = 0;  // that compute one c of the batch; Waves counts them
};

// A size or a distance as these kernels count; throws Error if it is too large.
int narrow(std::int64_t size);
// A matrix without gaps.
Matrix rows_of(float* data, std::int64_t columns);

// Products in the order of their waves: those of a wave wait for those of the waves before.
class Waves {
 public:
  void add(int wave, const SmallProduct& product);
  void launch(const Stream& stream) const;

 private:
  std::vector<std::vector<SmallProduct>> waves_;
};

}  // namespace comera::COMERA_CUDA
