#pragma once

#include <string_view>
#include <vector>

#include "kernels/ops/backend.h"

namespace comera {

// The CPU backend: vectorised kernels of float32 and bfloat16 on all OpenMP threads, for the best instruction
// set that the processor has; float64 is the plain backend's. Results do not depend on the number of threads.
const Backend& cpu_backend();
// That of another instruction set, for tests: sgemm takes the set that the processor prefers, whichever is
// asked for. Throws Error if this processor, system or build does not have it.
const Backend& cpu_backend(std::string_view instruction_set);

// The instruction set in use: "v3" (AVX2, FMA) or "v4" (AVX-512) of x86-64, or for bfloat16 "bf16" (v4 and
// AVX-512 BF16) or "amx" (that and AMX), of which float32 makes no use. The environment variable COMERA_ISA
// forces one.
std::string_view cpu_instruction_set();
// The one whose kernels float32 has then: "v3" or "v4".
std::string_view cpu_wide_instruction_set();
// All that can be forced here.
std::vector<std::string_view> cpu_instruction_sets();

}  // namespace comera
