#pragma once

#include <array>
#include <cstdint>

#include "kernels/core/tensors/dtype.h"

namespace comera {

// The assumed performance of a backend's processor, for code that chooses between ways to compute the same
// thing (tensorized/plan.h). Only ratios matter: they determine where one way becomes faster than another.
// The values are neither measured nor dependent on the number of threads. A choice affects rounding, so runs
// that must be bit-identical (resumed runs, other numbers of threads, all processes of a job) must choose
// alike. On a GPU the values depend on the card, so such runs need the same card.
struct MachineModel {
  double flops_per_second = 0;         // for products in float32, and in float64, which tests use
  double narrow_flops_per_second = 0;  // for products in bfloat16
  double bytes_per_second = 0;         // of memory traffic
  double seconds_per_call = 0;         // fixed cost of an operation
  // Bytes that an operation may hold at once of a tensor that it makes in parts, such as logits: few on a
  // processor, whose caches hold them; many on a GPU, where each part costs launches.
  std::int64_t part_bytes = 16 << 20;
  // Bytes of a part of a weight, or of its gradient, that several products in a row read or write: what stays
  // in a core's own cache on a processor, and no less than the above on a GPU.
  std::int64_t cached_bytes = 512 << 10;

  // The sizes that attention pads a head to, ascending; zeros: it takes heads of any size as they are.
  std::array<std::int64_t, 3> head_sizes = {};

  bool takes_head(std::int64_t size) const { return head_sizes.back() == 0 || size <= head_sizes.back(); }
  // What products with scores take of the columns of keys and of values, together.
  std::int64_t columns_with_scores(std::int64_t keys, std::int64_t values) const {
    for (const std::int64_t padded : head_sizes)
      if (padded >= keys && padded >= values) return 2 * padded;
    return keys + values;
  }
  double flops_in(DType compute) const {
    return compute == DType::bfloat16 ? narrow_flops_per_second : flops_per_second;
  }
};

// What kernels/cuda/machine.h computes of an H100 (SXM), for what is said about GPUs where there is none.
inline constexpr MachineModel h100{.flops_per_second = 132 * 1.98e9 * 256,
                                   .narrow_flops_per_second = 132 * 1.98e9 * 4096,
                                   .bytes_per_second = 2 * 2.619e9 * 5120 / 8,
                                   .seconds_per_call = 2e-6,
                                   .part_bytes = 512 << 20,
                                   .cached_bytes = 512 << 20,
                                   .head_sizes = {32, 64, 128}};

}  // namespace comera
