#include "kernels/ops/products/matrix_product.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/narrow_matrix_product.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/products/sgemm.h"

COMERA_CPU_BEGIN

namespace {
// oneDNN takes half the time for a thin product with B if it need not transpose it.
bool transposes_thin_b(const MatrixProduct& op) {
  return op.batch == 1 && op.transpose_b && !op.transpose_a && op.n <= 96 && op.m >= 512 && op.k >= 64;
}

// oneDNN's AVX2 code reads columns of A whose elements are a multiple of 2 KiB apart from few sets of the
// cache: it takes up to 2.7 times as long as a product with rows of A.
bool transposes_far_a(const MatrixProduct& op) {
  return lanes < 16 && op.batch == 1 && op.transpose_a && op.leading_a() % 512 == 0 && op.m >= 256 &&
         op.n >= 128 && op.k >= 64;
}

// Columns of A become rows.
void transpose_a(const MatrixProduct& op, float* to) {
  constexpr std::int64_t columns = 64;  // in a piece
  parallel_pieces((op.m + columns - 1) / columns, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t begin = piece * columns;
    transpose(op.a.data<float>() + begin, op.leading_a(), op.k, std::min(columns, op.m - begin),
              to + begin * op.k, op.k);
  });
}

Product product_of(const MatrixProduct& op, std::int64_t batch) {
  return {op.transpose_a,
          op.transpose_b,
          op.accumulate,
          op.m,
          op.n,
          op.k,
          op.a.data<float>() + batch * op.stride_a,
          op.leading_a(),
          op.b.data<float>() + batch * op.stride_b,
          op.leading_b(),
          op.c.data<float>() + batch * op.stride_c,
          op.leading_c()};
}

void clear(const Product& p) {
  if (p.accumulate) return;
  for (std::int64_t row = 0; row < p.m; ++row) std::fill_n(p.c + row * p.ldc, p.n, 0.F);
}
}  // namespace

std::size_t matrix_product_scratch(const MatrixProduct& op) {
  if (op.compute() == DType::bfloat16) return narrow_matrix_product_scratch(op);
  if (transposes_far_a(op)) return static_cast<std::size_t>(op.m * op.k) * sizeof(float);
  return transposes_thin_b(op) ? static_cast<std::size_t>(op.n * op.k) * sizeof(float) : 0;
}

template <>
void matrix_product<float>(const MatrixProduct& op, const KernelContext& context) {
  if (op.m == 0 || op.n == 0) return;
  if (op.k == 0) {
    for (std::int64_t b = 0; b < op.batch; ++b) clear(product_of(op, b));
    return;
  }
  if (op.batch == 1) {
    Product product = product_of(op, 0);
    if (transposes_thin_b(op)) {
      auto* transposed = reinterpret_cast<float*>(context.scratch);
      transpose(product.b, product.ldb, op.n, op.k, transposed, op.n);
      product.transpose_b = false;
      product.b = transposed;
      product.ldb = op.n;
    }
    if (transposes_far_a(op)) {
      auto* transposed = reinterpret_cast<float*>(context.scratch);
      transpose_a(op, transposed);
      product.transpose_a = false;
      product.a = transposed;
      product.lda = op.k;
    }
    return parallel_sgemm(product);
  }
  if (!batch_fills_threads(op)) {
    for (std::int64_t b = 0; b < op.batch; ++b) parallel_sgemm(product_of(op, b));
    return;
  }
  for_batch(op, [&](std::int64_t b, int) { sgemm(product_of(op, b)); });
}

COMERA_CPU_END
