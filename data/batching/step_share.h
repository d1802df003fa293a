#pragma once

#include <cstdint>

#include "kernels/core/check.h"

namespace comera::data {

// The micro-batches of a step that belong to one process: p, p + W, … of P.
struct StepShare {
  std::int64_t micro_batches_per_step = 1;   // P
  std::int64_t process = 0, world_size = 1;  // p of W

  // UsageError if the values are impossible.
  void check() const {
    if (micro_batches_per_step < 1 || world_size < 1 || process < 0 || process >= world_size ||
        world_size > micro_batches_per_step)
      throw UsageError(fmt::format(
          "process {} of {} cannot share {} micro-batches per step: give each process at least one", process,
          world_size, micro_batches_per_step));
  }

  bool has(std::int64_t micro_batch) const { return micro_batch % world_size == process; }

  // The process's next micro-batch from a packer, which makes (next) or skips (skip) the micro-batches of all
  // processes in order. After the last one of the process's share, skips to the end of the step. False at the
  // end.
  template <class Packer, class Batch>
  bool next(Packer& packer, Batch& batch) const {
    while (!has(packer.position().micro_batch))
      if (!packer.skip()) return false;
    if (!packer.next(batch)) return false;
    std::int64_t micro_batch = packer.position().micro_batch;
    while (micro_batch != 0 && !has(micro_batch)) micro_batch = (micro_batch + 1) % micro_batches_per_step;
    if (micro_batch != 0) return true;
    while (packer.position().micro_batch != 0 && packer.skip()) {
    }
    return true;
  }
};

}  // namespace comera::data
