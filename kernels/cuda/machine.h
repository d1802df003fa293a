#pragma once

#include "kernels/ops/machine.h"

namespace comera {

// What a GPU says of itself; as it stands here, an H100 (SXM).
struct GpuProperties {
  int capability = 90;  // compute capability, 8.9 as 89
  int multiprocessors = 132;
  double clock = 1.98e9;          // cycles per second
  double memory_clock = 2.619e9;  // two transfers in each cycle
  int memory_bus = 5120;          // bits
};

namespace cuda {
// The first one, which stands for all of a machine. Processes whose GPUs differ would plan differently: what
// a job compares and a checkpoint keeps (computes_with()) has these numbers. Without a GPU an H100. In
// emulation always an H100, whatever a test makes of the emulated machine.
GpuProperties first_gpu();
// Computed from the properties, not measured: what no product of the sizes of interest reaches, but neither
// does any copy. tf32: see backend().
MachineModel machine_of(const GpuProperties& gpu, bool tf32);
}  // namespace cuda

namespace cuda_emulated {
GpuProperties first_gpu();
MachineModel machine_of(const GpuProperties& gpu, bool tf32);
}  // namespace cuda_emulated

}  // namespace comera
