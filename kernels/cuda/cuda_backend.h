#pragma once

#include "kernels/ops/backend.h"

namespace comera {

namespace cuda {
// The backend of NVIDIA's GPUs.
const Backend& backend();
}  // namespace cuda

namespace cuda_emulated {
// The same kernels as host code (kernels/emulation), for tests.
const Backend& backend();
}  // namespace cuda_emulated

}  // namespace comera
