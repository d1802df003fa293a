#include "kernels/cuda/products/cublaslt.h"

#include <dlfcn.h>

#include "kernels/core/check.h"
#if defined(COMERA_EMULATED)
#include "kernels/emulation/cublaslt_fake.h"
#endif

namespace comera::COMERA_CUDA {

namespace {

#if defined(COMERA_EMULATED)
// The fake library (kernels/emulation/cublaslt_fake.cpp), whose work goes to the emulated streams.
void* load() {
  void* library = dlopen(COMERA_CUBLASLT_FILE, RTLD_NOW | RTLD_LOCAL);
  COMERA_CHECK(library != nullptr, "the fake cuBLASLt could not be loaded: {}", dlerror());
  const auto fake = reinterpret_cast<FakeCublasLtFunction>(dlsym(library, fake_cublaslt_function));
  COMERA_CHECK(fake != nullptr, "{} is no fake cuBLASLt", COMERA_CUBLASLT_FILE);
  fake()->put = [](std::string name, cudaStream_t stream, std::function<void()> work) {
    put(std::move(name), stream, std::move(work));
  };
  fake()->is_capturing = is_capturing;
  return library;
}
#else
void* load() {
  const std::string soname = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  // Where the system searches, then where the library was when this program was built.
  for (const char* file : {soname.c_str(), COMERA_CUBLASLT_FILE})
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  throw_error(
      fmt::format("products on a GPU need {} of CUDA, which could not be loaded: {}", soname, dlerror()));
}
#endif

}  // namespace

void* cublaslt_function(const char* name) {
  static void* library = load();
  void* function = dlsym(library, name);
  COMERA_CHECK(function != nullptr, "CUDA's library cuBLASLt has no function {}: {}", name, dlerror());
  return function;
}

}  // namespace comera::COMERA_CUDA
