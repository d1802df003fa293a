#pragma once

#include <string>

#include "kernels/core/memory.h"
#include "kernels/ops/backend.h"

namespace comera {

// The backend of a device: the one place that knows which there are. Everything above kernels/ asks here.
// tf32: a GPU's matrix products and attention in float32 round their operands to TF32; the CPU has no such
// products. Error if this program was built without the backend.
const Backend& backend_of(DeviceKind kind, bool tf32 = false);
// A device's memory: the host's, or a GPU's, which is made when first asked for and stays to the end. Error
// if there is no such GPU.
Allocator& allocator_of(Device device);

// How many GPUs can be used: none without a driver, or if this program was built without CUDA.
int cuda_device_count();
// Why there are none, in one sentence without a full stop; "" if there are some.
std::string why_no_cuda_device();

// To be called once before work begins: how many threads host work uses (0: one for each core), and how
// they treat numbers that are too small for normal floats (as zero).
void prepare_threads(int threads);
// How many there are, and the instruction set of the CPU backend: for reports.
int thread_count();
const char* instruction_set();

}  // namespace comera
