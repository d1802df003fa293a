#pragma once

#include "kernels/cuda/reduce.h"

namespace comera::COMERA_CUDA {

// The first p in [0, count) with part_of(p) >= wanted, or count; parts are non-decreasing. The result is in
// every lane, and all lanes of the warp must call: each probes one of 32 positions at a time, so that a round
// narrows the range about 32-fold in the time of a single read.
template <class PartOf>
__device__ __forceinline__ std::int64_t first_place(std::int64_t count, std::int64_t wanted,
                                                    PartOf&& part_of) {
  std::int64_t begin = 0, end = count;
  while (begin < end) {
    const std::int64_t step = (end - begin + warp - 1) / warp;
    const std::int64_t place = begin + (lane_of_thread() + 1) * step - 1;
    const bool before = place < end && part_of(place) < wanted;
    const int places = __popc(__ballot_sync(all_lanes, before ? 1 : 0));  // parts are non-decreasing
    begin += places * step;
    end = min(end, begin + step - 1);
  }
  return begin;
}

}  // namespace comera::COMERA_CUDA
