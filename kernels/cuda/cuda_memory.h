#pragma once

#include <memory>
#include <string>

#include "kernels/core/tensors/memory.h"

namespace comera {

namespace cuda {
// The number of usable GPUs; 0 without a driver.
int device_count();
// Whether the GPU's tensor cores multiply 8-bit numbers.
bool multiplies_float8(int device);
// The machine's name and the GPU's PCI bus address.
std::string device_address(int device);
// Why there are no GPUs, as a part of a sentence; "" if there are some.
std::string why_no_device();
// Whether a GPU seems to be there that cannot be used, for that reason.
bool misses_device();
// Why this GPU cannot run the kernels, as a part of a sentence; "" if it can.
std::string why_unfit(int device);
// The memory of a GPU, with a stream for steps and their recordings (CUDA graphs). Error if there is no such
// GPU.
std::unique_ptr<Allocator> make_allocator(int device);
}  // namespace cuda

namespace cuda_emulated {
int device_count();
// Whether the GPU's tensor cores multiply 8-bit numbers.
bool multiplies_float8(int device);
std::string device_address(int device);
std::string why_no_device();
bool misses_device();
std::string why_unfit(int device);
std::unique_ptr<Allocator> make_allocator(int device);
}  // namespace cuda_emulated

}  // namespace comera
