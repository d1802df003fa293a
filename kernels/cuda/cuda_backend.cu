#include "kernels/cuda/cuda_backend.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

const Backend& backend() {
  static const Backend made = [] {
#if defined(COMERA_EMULATED)
    Backend table("cuda (emulated)", Device{DeviceKind::cuda, 0});
#else
    Backend table("cuda", Device{DeviceKind::cuda, 0});
#endif
    register_attention_backward(table);
    register_attention_forward(table);
    register_cross_entropy(table);
    register_elementwise(table);
    register_norms(table);
    register_optimizer(table);
    register_products(table);
    register_rows(table);
    register_ttm(table);
    register_ttm_chain(table);
    return table;
  }();
  return made;
}

void check_call(cudaError_t error, const char* call, const char* file, int line) {
  COMERA_CHECK(error == cudaSuccess, "{}:{}: {} failed: {} ({})", file, line, call, cudaGetErrorString(error),
               cudaGetErrorName(error));
}

}  // namespace comera::COMERA_CUDA
