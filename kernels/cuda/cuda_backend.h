#pragma once

#include "kernels/ops/backend.h"

namespace comera {

// tf32: matrix products and attention in float32 round their operands to TF32 (10 bits of mantissa), the
// format of tensor cores; sums stay float32. The gain has not been measured.

namespace cuda {
// The backend of NVIDIA's GPUs.
const Backend& backend(bool tf32 = false);
}  // namespace cuda

namespace cuda_emulated {
// The same kernels as host code (kernels/emulation), for tests.
const Backend& backend(bool tf32 = false);
}  // namespace cuda_emulated

}  // namespace comera
