#pragma once

#include "kernels/cuda/cuda.h"
#include "kernels/ops/backend.h"

// The files that register kernels, each named after the stem of its operations in kernels/ops; tf32: see
// backend() in cuda_backend.h.
#define COMERA_CUDA_FILES(X)    \
  X(attention_backward)         \
  X(attention_forward)          \
  X(bias_activation)            \
  X(bias_dropout_residual_norm) \
  X(clicks)                     \
  X(cross_entropy)              \
  X(directions)                 \
  X(dropout)                    \
  X(embedding)                  \
  X(float8)                     \
  X(gather)                     \
  X(layer_norm)                 \
  X(layout)                     \
  X(matrix_product)             \
  X(muon)                       \
  X(optimizer)                  \
  X(ranks)                      \
  X(replaced_tokens)            \
  X(rotary)                     \
  X(diagonal)                   \
  X(scale_columns)              \
  X(sequence)                   \
  X(tt_factors)                 \
  X(tt_inner)                   \
  X(ttm_chain)                  \
  X(ttm_rows)                   \
  X(ttm_table)                  \
  X(weight_gradients)

namespace comera::COMERA_CUDA {

#define COMERA_DECLARE(file) void register_##file(Backend& backend, bool tf32);
COMERA_CUDA_FILES(COMERA_DECLARE)
#undef COMERA_DECLARE

}  // namespace comera::COMERA_CUDA
