#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/ops/backend.h"

// Kernels of bfloat16 for processors with AMX, instead of those of the variant v4; each has scratch.
#define COMERA_AMX_KERNELS(X)                          \
  X(MatrixProduct, amx_matrix_product)                 \
  X(AttentionForward, amx_attention_forward)           \
  X(AttentionBackward, amx_attention_backward)         \
  X(TTLinearForward, amx_tt_linear_forward)            \
  X(TTLinearBackward, amx_tt_linear_backward)          \
  X(TTFeedForwardForward, amx_tt_feed_forward_forward) \
  X(TTFeedForwardBackward, amx_tt_feed_forward_backward)

COMERA_CPU_BEGIN

#define COMERA_DECLARE(operation, name)                         \
  void name(const operation& op, const KernelContext& context); \
  std::size_t name##_scratch(const operation& op);
COMERA_AMX_KERNELS(COMERA_DECLARE)
#undef COMERA_DECLARE

COMERA_CPU_END
