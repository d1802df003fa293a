#pragma once

#include <string>

#include "kernels/core/tensors/memory.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/processor.h"

namespace comera {

// The backend of a device: the only code that knows all backends; everything above kernels/ calls it. Error
// if this program was built without the backend.
const Backend& backend_of(DeviceKind kind, OperandKind operands = OperandKind::as_they_are);
// A device's memory: the host's, or a GPU's, which is created at the first call and never released. Error if
// there is no such GPU.
Allocator& allocator_of(Device device);

// The number of usable GPUs: none without a driver, or if this program was built without CUDA.
int cuda_device_count();
// A globally unique GPU id: the machine's name and the GPU's PCI bus address.
std::string cuda_device_address(int device);
// Whether the tensor cores of a GPU multiply 8-bit numbers.
bool cuda_multiplies_float8(int device);
// Why there are no GPUs, in one sentence without a full stop; "" if there are some.
std::string why_no_cuda_device();
// Whether a GPU seems to be there that cannot be used, for that reason.
bool misses_cuda_device();
// Why a GPU cannot run the kernels, likewise; "" if it can.
std::string why_cuda_device_is_unfit(int device);

// Called once before work begins: sets the number of host threads (0: one per CPU that the process may use),
// and makes them flush denormal floats to zero.
void prepare_threads(int threads);
// The number of threads, and the CPU backend's instruction set: for reports.
int thread_count();
const char* instruction_set();
// The instruction set of the kernels for this compute type: only bfloat16 uses "bf16" and "amx" (but for
// Muon).
const char* instruction_set(DType compute);

}  // namespace comera
