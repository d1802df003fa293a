#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/ops/backend.h"

// Kernels for processors that multiply bfloat16 by AMX or AVX-512 BF16, replacing those of variant v4; each
// has scratch.
#define COMERA_BF16_KERNELS(X)                            \
  X(MatrixProduct, bf16_matrix_product)                   \
  X(AttentionForward, bf16_attention_forward)             \
  X(AttentionBackward, bf16_attention_backward)           \
  X(TTLinearForward, bf16_tt_linear_forward)              \
  X(TTLinearBackward, bf16_tt_linear_backward)            \
  X(TTFeedForwardForward, bf16_tt_feed_forward_forward)   \
  X(TTFeedForwardBackward, bf16_tt_feed_forward_backward) \
  X(TTMTableForward, bf16_ttm_table_forward)              \
  X(TTMTableBackward, bf16_ttm_table_backward)

COMERA_CPU_BEGIN

#define COMERA_DECLARE(operation, name)                         \
  void name(const operation& op, const KernelContext& context); \
  std::size_t name##_scratch(const operation& op);
COMERA_BF16_KERNELS(COMERA_DECLARE)
#undef COMERA_DECLARE

COMERA_CPU_END
