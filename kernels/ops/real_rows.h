#pragma once

#include <algorithm>

#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

// How many of `most` rows a pass computes if `count`, int32 (1), gives the number of valid rows, which come
// first. A CPU computes the valid rows, rounded up to a multiple of eight. A GPU, whose launches are the same
// for every micro-batch, computes all rows; so does a dry run. Only for operations that need no more memory
// for fewer rows, since the arena has the size that the dry run measured.
inline std::int64_t rows_to_compute(const Context& context, const Tensor& count, std::int64_t most) {
  if (context.dry_run() || count.device().kind != DeviceKind::cpu) return most;
  return std::clamp<std::int64_t>((*count.data<std::int32_t>() + 7) / 8 * 8, 0, most);
}

// Sets the rows of y (most, width) that were not computed to zero.
inline void clear_other_rows(const Context& context, const Tensor& y, std::int64_t computed) {
  if (computed < y.dim(0)) run(context, Fill{.x = y.rows(computed, y.dim(0) - computed), .value = 0});
}

}  // namespace comera
