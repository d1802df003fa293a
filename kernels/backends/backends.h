#pragma once

#include <string>

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/processor.h"

namespace comera {

// The backend of a device: the one place that knows which there are. Everything above kernels/ asks here.
// Error if this program was built without the backend.
const Backend& backend_of(DeviceKind kind, OperandKind operands = OperandKind::as_they_are);
// A device's memory: the host's, or a GPU's, which is made when first asked for and stays to the end. Error
// if there is no such GPU.
Allocator& allocator_of(Device device);

// How many GPUs can be used: none without a driver, or if this program was built without CUDA.
int cuda_device_count();
// What tells a GPU from all others of all machines: the machine's name and the GPU's address on its bus.
std::string cuda_device_address(int device);
// Whether the tensor cores of a GPU multiply 8-bit numbers.
bool cuda_multiplies_float8(int device);
// Why there are none, in one sentence without a full stop; "" if there are some.
std::string why_no_cuda_device();

// To be called once before work begins: how many threads host work uses (0: one for each core), and how
// they treat numbers that are too small for normal floats (as zero).
void prepare_threads(int threads);
// How many there are, and the instruction set of the CPU backend: for reports.
int thread_count();
const char* instruction_set();
// The one whose kernels such a compute type has: only bfloat16 has some of "bf16" and "amx".
const char* instruction_set(DType compute);

}  // namespace comera
