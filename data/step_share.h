#pragma once

#include <cstdint>

#include "kernels/core/check.h"

namespace comera::data {

// Which of the packs of a step are one process's: p, p + W, … of P.
struct StepShare {
  std::int64_t micro_batches_per_step = 1;           // P
  std::int64_t process = 0, world_size = 1;  // p of W

  // UsageError if it cannot be.
  void check() const {
    if (micro_batches_per_step < 1 || world_size < 1 || process < 0 || process >= world_size ||
        world_size > micro_batches_per_step)
      throw UsageError(
          fmt::format("process {} of {} cannot share {} packs per step: give each process at least one",
                      process, world_size, micro_batches_per_step));
  }

  bool has(std::int64_t pack) const { return pack % world_size == process; }

  // The process's next pack of a packer, which makes (next) or passes (skip) the packs of all processes in
  // order. Goes behind the whole step with the last one of the process's share of it. False at the end.
  template <class Packer, class Batch>
  bool next(Packer& packer, Batch& batch) const {
    while (!has(packer.position().pack))
      if (!packer.skip()) return false;
    if (!packer.next(batch)) return false;
    std::int64_t pack = packer.position().pack;
    while (pack != 0 && !has(pack)) pack = (pack + 1) % micro_batches_per_step;
    if (pack != 0) return true;
    while (packer.position().pack != 0 && packer.skip()) {
    }
    return true;
  }
};

}  // namespace comera::data
