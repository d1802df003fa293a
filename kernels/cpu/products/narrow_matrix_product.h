#pragma once

#include <algorithm>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/products/matrix_product.h"

COMERA_CPU_BEGIN

// For products of bfloat16.
std::size_t narrow_matrix_product_scratch(const MatrixProduct& op);

// Sets C = 0 unless it is added to: for empty products.
template <class T>
void clear_rows(T* c, const MatrixProduct& op) {
  for (std::int64_t row = 0; row < op.m; ++row) std::fill_n(c + row * op.leading_c(), op.n, T(0.F));
}
inline void clear_narrow_product(const MatrixProduct& op) {
  if (op.accumulate) return;
  for (std::int64_t b = 0; b < op.batch; ++b) {
    if (op.c.dtype() == DType::float32) {
      clear_rows(op.c.data<float>() + b * op.stride_c, op);
    } else {
      clear_rows(op.c.data<bfloat16>() + b * op.stride_c, op);
    }
  }
}

// Overlapping results are added in order; otherwise the threads share either a product or the batch.
inline bool batch_fills_threads(const MatrixProduct& op) {
  return op.stride_c != 0 && op.batch >= 8 && 2 * op.m * op.n * op.k <= 64'000'000;
}
template <class Body>
void for_batch(const MatrixProduct& op, const Body& body) {
  const std::int64_t work = 2 * op.m * op.n * op.k;
  const std::int64_t together =
      std::max<std::int64_t>(1, 200'000 / work);  // products that are worth a thread
  const std::int64_t pieces = (op.batch + together - 1) / together;
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int thread) {
    const std::int64_t end = std::min(op.batch, (piece + 1) * together);
    for (std::int64_t b = piece * together; b < end; ++b) body(b, thread);
  });
}

COMERA_CPU_END
