# Where cuBLASLt and NCCL are found, with folders as PyTorch's packages leave them. Run as
#   cmake -DSOURCE=<project> -DFOLDER=<scratch> -P cuda_libraries_test.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
set(CMAKE_BINARY_DIR ${FOLDER}/build)

function(put)
  foreach(file ${ARGN})
    file(WRITE ${FOLDER}/${file} "${file}\n")
  endforeach()
endfunction()
function(expect what is wanted)
  if(NOT "${is}" STREQUAL "${wanted}")
    message(SEND_ERROR "${what}: '${is}' instead of '${wanted}'")
  endif()
endfunction()

set(CUDAToolkit_INCLUDE_DIRS ${FOLDER}/cuda/include)
set(CUDAToolkit_BIN_DIR ${FOLDER}/cuda/bin)
set(CUDAToolkit_LIBRARY_DIR "")
set(COMERA_SYSTEM_ROOTS "") # whatever this machine has
include(${SOURCE}/cmake/ComeraCudaLibraries.cmake)
macro(find_cublaslt)
  comera_find_cuda_library(CUBLASLT libcublasLt.so.13 cublasLt.h cublas_api.h)
endmacro()

# Nothing is there; then only another major version; then headers without a library.
set(COMERA_CUDA_PACKAGES ${FOLDER}/old/nvidia ${FOLDER}/new/nvidia)
find_cublaslt()
expect("nothing" "${CUBLASLT_LIBRARY}${CUBLASLT_HEADERS}" "")
put(old/nvidia/cublas/include/cublasLt.h old/nvidia/cublas/include/cublas_api.h old/nvidia/cublas/lib/libcublasLt.so.12)
find_cublaslt()
expect("another version" "${CUBLASLT_LIBRARY}" "")
put(cuda/include/cublasLt.h cuda/include/cublas_api.h)
find_cublaslt()
expect("headers alone" "${CUBLASLT_LIBRARY}" "")

# The folder of CUDA 13's packages, which has other headers too: those do not come along.
put(new/nvidia/cu13/include/cublasLt.h new/nvidia/cu13/include/cublas_api.h new/nvidia/cu13/include/cuda_runtime.h
  new/nvidia/cu13/lib/libcublasLt.so.13)
find_cublaslt()
expect("CUDA 13's packages" "${CUBLASLT_LIBRARY}" ${FOLDER}/new/nvidia/cu13/lib/libcublasLt.so.13)
file(GLOB headers RELATIVE ${CUBLASLT_HEADERS} ${CUBLASLT_HEADERS}/*)
expect("its headers" "${headers}" "cublasLt.h;cublas_api.h")
file(READ ${CUBLASLT_HEADERS}/cublasLt.h text)
expect("the header's origin" "${text}" "new/nvidia/cu13/include/cublasLt.h\n")

# A package of its own.
comera_find_cuda_library(NCCL libnccl.so.2 nccl.h)
expect("no NCCL" "${NCCL_LIBRARY}" "")
put(old/nvidia/nccl/include/nccl.h old/nvidia/nccl/lib/libnccl.so.2)
comera_find_cuda_library(NCCL libnccl.so.2 nccl.h)
expect("NCCL's package" "${NCCL_LIBRARY}" ${FOLDER}/old/nvidia/nccl/lib/libnccl.so.2)

# What stands beside nvcc comes first, and its headers are used where they are.
put(cuda/lib64/libcublasLt.so.13)
find_cublaslt()
expect("beside nvcc" "${CUBLASLT_LIBRARY}" ${FOLDER}/cuda/lib64/libcublasLt.so.13)
expect("its headers" "${CUBLASLT_HEADERS}" ${FOLDER}/cuda/include)

# Folders are asked of python3 where none are named: an environment that is active is one of them.
set(COMERA_CUDA_PACKAGES "")
put(site/nvidia/nccl/include/nccl.h site/nvidia/nccl/lib/libnccl.so.2)
find_program(python python3)
if(python)
  set(ENV{PYTHONPATH} ${FOLDER}/site)
  comera_find_cuda_library(NCCL libnccl.so.2 nccl.h)
  expect("python3's folders" "${NCCL_LIBRARY}" ${FOLDER}/site/nvidia/nccl/lib/libnccl.so.2)
endif()
