#pragma once

#include "kernels/ops/backend.h"

// The plain CPU backend: one loop per formula, float and double, on one thread. It is the oracle that quick
// kernels are tested against, so it is written to be read, not to be fast.
namespace comera {

const Backend& reference_backend();

namespace reference {

// The files of this folder, each with the stem that its operations have in kernels/ops. Each registers its
// own.
#define COMERA_PLAIN_FILES(X)   \
  X(attention)                  \
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
  X(rotary)                     \
  X(scale_columns)              \
  X(sequence)                   \
  X(ttm_chain)                  \
  X(ttm_rows)

#define COMERA_DECLARE(file) void register_##file(Backend& backend);
COMERA_PLAIN_FILES(COMERA_DECLARE)
#undef COMERA_DECLARE

// All of them: the CPU's backend begins with them too.
void register_all(Backend& backend);

}  // namespace reference
}  // namespace comera
