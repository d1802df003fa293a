#pragma once

// The CUDA language and its runtime: the real ones, or their emulation on the host (kernels/emulation), for
// which the tests compile the same files once more. Everything in this folder lives in comera::COMERA_CUDA,
// so that both can be linked into one program.

#if defined(COMERA_EMULATED)
#include "kernels/emulation/language.h"
#include "kernels/emulation/runtime.h"
#define COMERA_CUDA cuda_emulated
namespace comera::COMERA_CUDA {
using namespace comera::emulation;  // NOLINT(google-build-using-namespace): stands for the language
}
#else
#include <cuda_runtime.h>
#define COMERA_CUDA cuda
#endif
