#include "kernels/cuda/cuda_backend.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"

namespace comera::COMERA_CUDA {

namespace {

#if defined(COMERA_EMULATED)
constexpr std::string_view names[] = {"cuda (emulated)", "cuda (emulated), TF32"};
#else
constexpr std::string_view names[] = {"cuda", "cuda, TF32"};
#endif

Backend make_backend(bool tf32) {
  Backend table(names[tf32 ? 1 : 0], Device{DeviceKind::cuda, 0});
  register_attention_backward(table, tf32);
  register_attention_forward(table, tf32);
  register_cross_entropy(table);
  register_elementwise(table);
  register_float8(table);
  register_directions(table);
  register_muon(table);
  register_norms(table);
  register_optimizer(table);
  register_products(table, tf32);
  register_ranks(table);
  register_rows(table);
  register_ttm(table);
  register_ttm_chain(table);
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
