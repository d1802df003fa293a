#pragma once

#include <string_view>

#include "kernels/ops/backend.h"

namespace comera {

// The CPU backend: vectorised kernels of float32 and bfloat16 on all OpenMP threads, for the best instruction
// set that the processor has; float64 is the plain backend's. Results do not depend on the number of threads.
const Backend& cpu_backend();

// The instruction set in use: "v3" (AVX2, FMA) or "v4" (AVX-512) of x86-64, or "amx" (v4 and AMX, which
// float32 makes no use of). The environment variable COMERA_ISA forces one.
std::string_view cpu_instruction_set();

}  // namespace comera
