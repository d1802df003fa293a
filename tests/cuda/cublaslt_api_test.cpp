// The values of cuBLASLt's interface in kernels/emulation/cublaslt_api.h, compared with the real header: this
// file compiles only if they are the same.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

#define COMERA_CUBLASLT_TYPES_ONLY
namespace written_down {
#include "kernels/emulation/cublaslt_api.h"
}

#define COMERA_SAME(name) static_assert(static_cast<int>(written_down::name) == static_cast<int>(::name))
COMERA_SAME(CUBLAS_STATUS_SUCCESS);
COMERA_SAME(CUBLAS_STATUS_INVALID_VALUE);
COMERA_SAME(CUBLAS_STATUS_EXECUTION_FAILED);
COMERA_SAME(CUBLAS_STATUS_NOT_SUPPORTED);
COMERA_SAME(CUBLAS_OP_N);
COMERA_SAME(CUBLAS_OP_T);
COMERA_SAME(CUBLAS_COMPUTE_32F);
COMERA_SAME(CUBLAS_COMPUTE_32F_FAST_TF32);
COMERA_SAME(CUDA_R_32F);
COMERA_SAME(CUDA_R_16BF);
COMERA_SAME(CUDA_R_8F_E4M3);
COMERA_SAME(CUDA_R_8F_E5M2);
COMERA_SAME(CUBLASLT_MATMUL_DESC_TRANSA);
COMERA_SAME(CUBLASLT_MATMUL_DESC_TRANSB);
COMERA_SAME(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
COMERA_SAME(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
COMERA_SAME(CUBLASLT_MATMUL_DESC_FAST_ACCUM);
COMERA_SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
COMERA_SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
COMERA_SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
COMERA_SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
COMERA_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
COMERA_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
COMERA_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
COMERA_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
COMERA_SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(sizeof(written_down::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(written_down::cublasLtMatmulHeuristicResult_t) ==
              sizeof(::cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(written_down::cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));
#endif
