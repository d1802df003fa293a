#pragma once

#include "kernels/ops/backend.h"

// Each variant of the kernels is linked into one object with all other symbols local, so that inline
// functions compiled for AVX-512 never reach the rest of the program.
extern "C" {
void comera_register_cpu_v3(comera::Backend& backend);
void comera_register_cpu_v4(comera::Backend& backend);
// Replacements for bfloat16 kernels of v4: AVX-512 BF16, and AMX, which has Muon's too.
void comera_register_cpu_bf16(comera::Backend& backend);
void comera_register_cpu_amx(comera::Backend& backend);
}
