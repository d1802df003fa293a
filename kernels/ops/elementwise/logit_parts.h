#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/machine.h"

// How losses over a vocabulary divide their logits (rows x classes), which are made, read and multiplied
// again: into blocks of rows, which bound their memory, and each block into parts of classes, which stay in a
// core's own cache with their rows of the table. Never more rows at once than a dry run with the most rows
// has, so that the arena suffices for micro-batches with fewer.
namespace comera {

// The rows of a block where a micro-batch has the most: nearly equal blocks of a multiple of 8, of at
// most 2.5 times part_bytes. A mean micro-batch, which has a fifth less, needs no more blocks than with 2
// times.
inline std::int64_t logit_rows_at_once(const MachineModel& machine, std::int64_t most_rows,
                                       std::int64_t classes, DType compute) {
  const auto row_bytes = classes * static_cast<std::int64_t>(size_of(compute));
  const std::int64_t fit = std::max<std::int64_t>(5 * machine.part_bytes / 2 / row_bytes / 8 * 8, 8);
  const std::int64_t blocks = std::max<std::int64_t>((most_rows + fit - 1) / fit, 1);
  return std::max<std::int64_t>(((most_rows + blocks - 1) / blocks + 7) / 8 * 8, 8);
}

// The rows of a block of a micro-batch with `rows`, nearly equal; at most at_once (logit_rows_at_once()).
inline std::int64_t equal_logit_rows(std::int64_t rows, std::int64_t at_once) {
  const std::int64_t blocks = std::max<std::int64_t>((rows + at_once - 1) / at_once, 1);
  return std::min(((rows + blocks - 1) / blocks + 7) / 8 * 8, at_once);
}

// The classes of a part: nearly equal parts of whole `units`, whose rows of the table have at most
// cached_bytes, and whose logits at most twice that or 512 classes. table_row: bytes of a class in the table;
// block_rows: as logit_rows_at_once(), so that a division does not depend on what a micro-batch has.
inline std::int64_t classes_at_once(const MachineModel& machine, std::int64_t classes, std::int64_t unit,
                                    std::int64_t table_row, std::int64_t block_rows, DType compute) {
  const auto size = static_cast<std::int64_t>(size_of(compute));
  const std::int64_t units = (classes + unit - 1) / unit;
  const std::int64_t fit =
      std::min(machine.cached_bytes / table_row,
               std::max<std::int64_t>(2 * machine.cached_bytes / (block_rows * size), 512));
  const std::int64_t most = fit >= classes ? units : std::clamp<std::int64_t>(fit / unit, 1, units);
  const std::int64_t parts = (units + most - 1) / most;
  const std::int64_t equal = (units + parts - 1) / parts;
  // Rows of a part that are a multiple of 2 KiB apart share few lines of the first cache.
  const bool share = parts > 1 && equal > 1 && equal * unit * size % 2048 == 0 && unit * size % 2048 != 0;
  return (share ? equal - 1 : equal) * unit;
}

}  // namespace comera
