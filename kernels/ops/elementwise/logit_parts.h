#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/machine.h"

// How losses over a vocabulary divide their logits (rows x classes), which are made, read and multiplied
// again: blocks of rows that have memory, and of these parts of classes that stay in a core's own cache with
// their rows of the table.
namespace comera {

// The most rows of a block, of `rows` that a micro-batch has at most; a multiple of 8.
inline std::int64_t logit_rows_at_once(const MachineModel& machine, std::int64_t rows, std::int64_t classes,
                                       DType compute) {
  const auto row_bytes = classes * static_cast<std::int64_t>(size_of(compute));
  return std::clamp<std::int64_t>(2 * machine.part_bytes / row_bytes / 8 * 8, 8,
                                  std::max<std::int64_t>(rows, 8));
}

// The rows that a micro-batch has, in nearly equal blocks.
inline std::int64_t equal_logit_rows(std::int64_t rows, std::int64_t at_once) {
  const std::int64_t blocks = std::max<std::int64_t>((rows + at_once - 1) / at_once, 1);
  return std::min(((rows + blocks - 1) / blocks + 7) / 8 * 8, at_once);
}

// Of `classes`, in nearly equal parts of whole `units`. table_row: bytes of a class in the table;
// block_rows: as logit_rows_at_once(), so that a division does not depend on what a micro-batch has.
inline std::int64_t classes_at_once(const MachineModel& machine, std::int64_t classes, std::int64_t unit,
                                    std::int64_t table_row, std::int64_t block_rows, DType compute) {
  const auto size = static_cast<std::int64_t>(size_of(compute));
  const std::int64_t units = (classes + unit - 1) / unit;
  const std::int64_t fit =
      std::min(machine.cached_bytes / table_row, 2 * machine.cached_bytes / (block_rows * size)) / unit;
  const std::int64_t most = std::clamp<std::int64_t>(fit, 1, units), parts = (units + most - 1) / most;
  std::int64_t equal = (units + parts - 1) / parts;
  // Rows of a part that are multiples of 2 KiB apart would share few lines of the first cache.
  if (parts > 1 && equal > 1 && equal * unit * size % 2048 == 0) --equal;
  return equal * unit;
}

}  // namespace comera
