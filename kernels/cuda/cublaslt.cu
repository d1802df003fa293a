#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

#include "kernels/core/check.h"

namespace comera::COMERA_CUDA {

namespace {

void* load() {
  const std::string soname = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  // Where the system looks, then where it was when this program was built.
  for (const char* file : {soname.c_str(), COMERA_CUBLASLT_FILE})
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  throw_error(
      fmt::format("products on a GPU need {} of CUDA, which could not be loaded: {}", soname, dlerror()));
}

}  // namespace

void* cublaslt_function(const char* name) {
  static void* library = load();
  void* function = dlsym(library, name);
  COMERA_CHECK(function != nullptr, "CUDA's library cuBLASLt has no function {}: {}", name, dlerror());
  return function;
}

}  // namespace comera::COMERA_CUDA
