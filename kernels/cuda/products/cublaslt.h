#pragma once

#include <utility>

#include "kernels/cuda/cuda.h"
#if defined(COMERA_EMULATED)
#include "kernels/emulation/cublaslt_api.h"
#else
#include <cublasLt.h>
#endif

// The cuBLASLt functions in use, under their original names. The library is loaded at the first call: linking
// it would add 0.14 s to every start of the program, and prevent it from starting on machines without
// cuBLASLt.
namespace comera::COMERA_CUDA {

// Error if the library is missing.
void* cublaslt_function(const char* name);

#define COMERA_CUBLASLT(name)                                                                   \
  inline constexpr auto name = [](auto&&... arguments) {                                        \
    static const auto function = reinterpret_cast<decltype(&::name)>(cublaslt_function(#name)); \
    return function(std::forward<decltype(arguments)>(arguments)...);                           \
  }
COMERA_CUBLASLT(cublasLtCreate);
COMERA_CUBLASLT(cublasLtGetStatusString);
COMERA_CUBLASLT(cublasLtMatmul);
COMERA_CUBLASLT(cublasLtMatmulAlgoGetHeuristic);
COMERA_CUBLASLT(cublasLtMatmulDescCreate);
COMERA_CUBLASLT(cublasLtMatmulDescSetAttribute);
COMERA_CUBLASLT(cublasLtMatmulPreferenceCreate);
COMERA_CUBLASLT(cublasLtMatmulPreferenceDestroy);
COMERA_CUBLASLT(cublasLtMatmulPreferenceSetAttribute);
COMERA_CUBLASLT(cublasLtMatrixLayoutCreate);
COMERA_CUBLASLT(cublasLtMatrixLayoutSetAttribute);
#undef COMERA_CUBLASLT

}  // namespace comera::COMERA_CUDA
