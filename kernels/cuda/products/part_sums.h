#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

// Partial sums of a launch, for instance one per block, to be added to their destination in a fixed order:
//
//   to[row to_apart + column] += Σ over p of parts[p apart + row columns + column]
//
// Four columns at a time if columns and strides are multiples of 4 and memory is aligned to 16 bytes. Device
// memory.
struct PartSums {
  const float* parts = nullptr;
  std::int64_t apart = 0;
  float* to = nullptr;
  int count = 0;  // number of parts
  int rows = 1, columns = 0, to_apart = 0;
};

// All in one launch.
void add_part_sums(const Stream& stream, const std::vector<PartSums>& all);

}  // namespace comera::COMERA_CUDA
