#include "kernels/cuda/products/cublaslt.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "kernels/core/check.h"
#include "kernels/cuda/python_packages.h"
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
  // Where the system searches; beside the wheel; where the library was when this program was built.
  std::vector<std::string> files = {soname};
  std::vector<std::filesystem::path> binaries = {"/proc/self/exe"};
  if (Dl_info own{}; dladdr(reinterpret_cast<const void*>(&cublaslt_function), &own) != 0)
    binaries.emplace_back(own.dli_fname);  // the module, if that has loaded this
  for (const std::filesystem::path& binary : binaries) {
    std::error_code failed;
    for (std::string& file : in_python_packages(std::filesystem::canonical(binary, failed), soname))
      files.push_back(std::move(file));
  }
  files.emplace_back(COMERA_CUBLASLT_FILE);
  std::string reason;
  for (const std::string& file : files) {
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* said = dlerror();
    std::error_code failed;
    if (reason.empty() || std::filesystem::is_regular_file(file, failed))
      reason = said == nullptr ? file : said;
  }
  throw_error(fmt::format(
      "products on a GPU need {} of CUDA, which could not be loaded: {}; install CUDA {}, or beside the "
      "wheel PyPI's {}",
      soname, reason, CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR < 13 ? "nvidia-cublas-cu12" : "nvidia-cublas"));
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
