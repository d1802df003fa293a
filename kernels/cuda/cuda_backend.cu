#include "kernels/cuda/cuda_backend.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/machine.h"

namespace comera::COMERA_CUDA {

namespace {

#if defined(COMERA_EMULATED)
constexpr std::string_view names[] = {"cuda (emulated)", "cuda (emulated), TF32"};
#else
constexpr std::string_view names[] = {"cuda", "cuda, TF32"};
#endif

Backend make_backend(bool tf32) {
  Backend table(names[tf32 ? 1 : 0], Device{DeviceKind::cuda, 0}, machine_of(first_gpu(), tf32));
#define COMERA_REGISTER(file) register_##file(table, tf32);
  COMERA_CUDA_FILES(COMERA_REGISTER)
#undef COMERA_REGISTER
  return table;
}

}  // namespace

const Backend& backend(bool tf32) {
  static const Backend exact = make_backend(false), rounded = make_backend(true);
  return tf32 ? rounded : exact;
}

void check_call(cudaError_t error, const char* call, const char* file, int line) {
  COMERA_CHECK(error == cudaSuccess, "{}:{}: {} failed: {} ({})", file, line, call, cudaGetErrorString(error),
               cudaGetErrorName(error));
}

}  // namespace comera::COMERA_CUDA
