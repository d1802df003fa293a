#pragma once

#include "kernels/ops/backend.h"

// Operations with a fallback decomposition: for each stem of kernels/ops listed here there is a file
// STEM_composition.cpp.
#define COMERA_COMPOSITIONS(X) \
  X(cross_entropy)             \
  X(float8)                    \
  X(matrix_product) X(tt_feed_forward) X(tt_factors) X(tt_inner) X(tt_linear) X(ttm_table) X(weight_gradients)

namespace comera {

#define COMERA_DECLARE(stem) void compose_##stem(Backend& backend, DType compute);
COMERA_COMPOSITIONS(COMERA_DECLARE)
#undef COMERA_DECLARE

// Registers the decomposition of each such operation, for every compute type.
inline void register_compositions(Backend& backend) {
  for (const DType compute : {DType::float32, DType::float64, DType::bfloat16}) {
#define COMERA_COMPOSE(stem) compose_##stem(backend, compute);
    COMERA_COMPOSITIONS(COMERA_COMPOSE)
#undef COMERA_COMPOSE
  }
}

}  // namespace comera
