#pragma once

#include <string_view>
#include <vector>

#include "kernels/ops/backend.h"

namespace comera {

// The CPU backend: vectorised float32 and bfloat16 kernels on all OpenMP threads, for the best instruction
// set of the processor; float64 uses the reference backend. Results do not depend on the number of threads.
const Backend& cpu_backend();
// The backend for another instruction set, for tests; sgemm always uses the processor's preferred set. Throws
// Error if this processor, system or build does not support it.
const Backend& cpu_backend(std::string_view instruction_set);

// The instruction set in use: "v3" (AVX2, FMA) or "v4" (AVX-512) of x86-64, or for bfloat16 "bf16" (v4 and
// AVX-512 BF16) or "amx" (that and AMX), which float32 uses for Muon alone. The environment variable
// COMERA_ISA forces one.
std::string_view cpu_instruction_set();
// The instruction set of the float32 kernels: "v3" or "v4".
std::string_view cpu_wide_instruction_set();
// All that can be forced on this machine.
std::vector<std::string_view> cpu_instruction_sets();

}  // namespace comera
