#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

// What parts of a launch, such as its blocks, gave, to be added to where it belongs, in a fixed order:
//
//   to[row to_apart + column] += Σ over p of parts[p apart + row columns + column]
//
// Four columns at a time where columns and distances are multiples of 4 and memory begins at multiples of 16
// bytes. Device memory.
struct PartSums {
  const float* parts = nullptr;
  std::int64_t apart = 0;
  float* to = nullptr;
  int count = 0;  // of parts
  int rows = 1, columns = 0, to_apart = 0;
};

// All of them in one launch.
void add_part_sums(const Stream& stream, const std::vector<PartSums>& all);

}  // namespace comera::COMERA_CUDA
