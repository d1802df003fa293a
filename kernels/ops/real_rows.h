#pragma once

#include <algorithm>

#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

// How many of `most` rows a pass works on where `count`, int32 (1), says how many are real and the others
// follow them: on a CPU those there are, in whole eights; on a GPU, whose launches are the same for every
// micro-batch, and in a dry run all. Only for operations that need no more memory for fewer rows, since the
// arena is as large as the dry run found.
inline std::int64_t rows_to_compute(const Context& context, const Tensor& count, std::int64_t most) {
  if (context.dry_run() || count.device().kind != DeviceKind::cpu) return most;
  return std::clamp<std::int64_t>((*count.data<std::int32_t>() + 7) / 8 * 8, 0, most);
}

// The rows that were left out of y (most, width) are zero.
inline void clear_other_rows(const Context& context, const Tensor& y, std::int64_t computed) {
  if (computed < y.dim(0)) run(context, Fill{.x = y.rows(computed, y.dim(0) - computed), .value = 0});
}

}  // namespace comera
