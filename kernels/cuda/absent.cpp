// Replaces this folder in a program built without CUDA.

#include "kernels/core/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/device_file.h"

namespace comera::cuda {

const Backend& backend(bool) { throw_error(why_no_device()); }

int device_count() { return 0; }

bool multiplies_float8(int) { return false; }

std::string device_address(int) { throw_error(why_no_device()); }

std::string why_no_device() { return "this program was built without CUDA; build with -DCOMERA_CUDA=ON"; }

bool misses_device() { return has_device_file(); }

std::string why_unfit(int) { return why_no_device(); }

std::unique_ptr<Allocator> make_allocator(int) { throw_error(why_no_device()); }

}  // namespace comera::cuda
