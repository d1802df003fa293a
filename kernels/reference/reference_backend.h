#pragma once

#include "kernels/ops/backend.h"

// The reference backend on the CPU: one loop per formula, float and double, on one thread. It is the oracle
// for tests of the optimised kernels, so it is written for readability instead of speed.
namespace comera {

const Backend& reference_backend();

namespace reference {

// The files of this folder, named after the stems of their operations in kernels/ops. Each registers its
// operations.
#define COMERA_REFERENCE_FILES(X) \
  X(attention)                    \
  X(bias_activation)              \
  X(bias_dropout_residual_norm)   \
  X(clicks)                       \
  X(cross_entropy)                \
  X(directions)                   \
  X(dropout)                      \
  X(embedding)                    \
  X(float8)                       \
  X(gather)                       \
  X(layer_norm)                   \
  X(layout)                       \
  X(matrix_product)               \
  X(muon)                         \
  X(optimizer)                    \
  X(ranks)                        \
  X(replaced_tokens)              \
  X(rotary)                       \
  X(scale_columns)                \
  X(sequence)                     \
  X(ttm_chain)                    \
  X(ttm_rows)

#define COMERA_DECLARE(file) void register_##file(Backend& backend);
COMERA_REFERENCE_FILES(COMERA_DECLARE)
#undef COMERA_DECLARE

// Registers all of them: the CPU's backend starts with them too.
void register_all(Backend& backend);

}  // namespace reference
}  // namespace comera
