#pragma once

// The kernels are compiled once for each instruction set, in an inline namespace of that name: v3 (AVX2 and
// FMA) and v4 (AVX-512); bf16 (AVX-512 BF16) and amx have a few more, of bfloat16. COMERA_KERNEL_ISA is
// defined by kernels/cpu/CMakeLists.txt.
#ifndef COMERA_KERNEL_ISA
#define COMERA_KERNEL_ISA v3
#endif

#define COMERA_CPU_BEGIN  \
  namespace comera::cpu { \
  inline namespace COMERA_KERNEL_ISA {
#define COMERA_CPU_END \
  }                    \
  }
