#pragma once

// The kernels are compiled once per instruction set, each in an inline namespace of that name: v3 (AVX2 and
// FMA) and v4 (AVX-512); bf16 (AVX-512 BF16) and amx add some bfloat16 kernels, and amx Muon's.
// kernels/cpu/CMakeLists.txt defines COMERA_KERNEL_ISA.
#ifndef COMERA_KERNEL_ISA
#define COMERA_KERNEL_ISA v3
#endif

#define COMERA_CPU_BEGIN  \
  namespace comera::cpu { \
  inline namespace COMERA_KERNEL_ISA {
#define COMERA_CPU_END \
  }                    \
  }
