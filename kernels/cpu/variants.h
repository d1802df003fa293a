#pragma once

#include "kernels/ops/backend.h"

// Each variant of the kernels is linked into one object whose other symbols are local, so that inline
// functions compiled for AVX-512 never reach the rest of the program.
extern "C" {
void comera_register_cpu_v3(comera::Backend& backend);
void comera_register_cpu_v4(comera::Backend& backend);
// What they do better than v4, in bfloat16: AVX-512 BF16, and AMX.
void comera_register_cpu_bf16(comera::Backend& backend);
void comera_register_cpu_amx(comera::Backend& backend);
}
