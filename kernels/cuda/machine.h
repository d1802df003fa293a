#pragma once

#include "kernels/ops/machine.h"

namespace comera {

// Properties that a GPU reports; the defaults are those of an H100 (SXM).
struct GpuProperties {
  int capability = 90;  // compute capability, 8.9 as 89
  int multiprocessors = 132;
  double clock = 1.98e9;                         // cycles per second
  double memory_clock = 2.619e9;                 // two transfers per cycle
  int memory_bus = 5120;                         // bits
  std::int64_t memory = std::int64_t{80} << 30;  // bytes
};

namespace cuda {
// The first GPU, which represents the whole machine. Processes with different GPUs would plan differently;
// these numbers are therefore part of what a job compares and a checkpoint records (computes_with()). Without
// a GPU, and always in emulation, an H100.
GpuProperties first_gpu();
// Computed from the properties, not measured: upper bounds that neither products of typical sizes nor copies
// reach. tf32: see backend().
MachineModel machine_of(const GpuProperties& gpu, bool tf32);
}  // namespace cuda

namespace cuda_emulated {
GpuProperties first_gpu();
MachineModel machine_of(const GpuProperties& gpu, bool tf32);
}  // namespace cuda_emulated

}  // namespace comera
