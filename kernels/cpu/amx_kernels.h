#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/ops/backend.h"

// Kernels of bfloat16 for processors with AMX, instead of those of the variant v4.
COMERA_CPU_BEGIN

void amx_matrix_product(const MatrixProduct& op, const KernelContext& context);
std::size_t amx_matrix_product_scratch(const MatrixProduct& op);

void amx_attention_forward(const AttentionForward& op, const KernelContext& context);
std::size_t amx_attention_forward_scratch(const AttentionForward& op);
void amx_attention_backward(const AttentionBackward& op, const KernelContext& context);
std::size_t amx_attention_backward_scratch(const AttentionBackward& op);

void amx_linear_forward(const TTLinearForward& op, const KernelContext& context);
std::size_t amx_linear_forward_scratch(const TTLinearForward& op);
void amx_linear_backward(const TTLinearBackward& op, const KernelContext& context);
std::size_t amx_linear_backward_scratch(const TTLinearBackward& op);

void amx_feed_forward_forward(const TTFeedForwardForward& op, const KernelContext& context);
std::size_t amx_feed_forward_forward_scratch(const TTFeedForwardForward& op);
void amx_feed_forward_backward(const TTFeedForwardBackward& op, const KernelContext& context);
std::size_t amx_feed_forward_backward_scratch(const TTFeedForwardBackward& op);

COMERA_CPU_END
