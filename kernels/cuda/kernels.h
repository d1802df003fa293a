#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/backend.h"

// Each file of kernels registers its own.
namespace comera::COMERA_CUDA {

void register_norms(Backend& backend);

}  // namespace comera::COMERA_CUDA
