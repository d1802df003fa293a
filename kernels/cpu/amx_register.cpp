#include "kernels/cpu/amx_kernels.h"
#include "kernels/cpu/variants.h"

extern "C" void comera_register_cpu_amx(comera::Backend& backend) {
  using namespace comera::cpu;  // NOLINT(google-build-using-namespace): this variant's kernels
  constexpr comera::DType type = comera::DType::bfloat16;
  backend.set<comera::MatrixProduct>(type, amx_matrix_product, amx_matrix_product_scratch);
  backend.set<comera::AttentionForward>(type, amx_attention_forward, amx_attention_forward_scratch);
  backend.set<comera::AttentionBackward>(type, amx_attention_backward, amx_attention_backward_scratch);
  backend.set<comera::TTLinearForward>(type, amx_linear_forward, amx_linear_forward_scratch);
  backend.set<comera::TTLinearBackward>(type, amx_linear_backward, amx_linear_backward_scratch);
  backend.set<comera::TTFeedForwardForward>(type, amx_feed_forward_forward, amx_feed_forward_forward_scratch);
  backend.set<comera::TTFeedForwardBackward>(type, amx_feed_forward_backward,
                                             amx_feed_forward_backward_scratch);
}
