#include "kernels/ops/matrix_product.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
// oneDNN takes half the time for a thin product with B if it need not transpose it.
bool transposes_thin_b(const MatrixProduct& op) {
  return op.batch == 1 && op.transpose_b && !op.transpose_a && op.n <= 96 && op.m >= 512 && op.k >= 64;
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
  return transposes_thin_b(op) ? static_cast<std::size_t>(op.n * op.k) * sizeof(float) : 0;
}

void matrix_product(const MatrixProduct& op, const KernelContext& context) {
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
    return parallel_sgemm(product);
  }
  // Results that overlap are added in order; otherwise either a product or the batch fills the threads.
  const std::int64_t work = 2 * op.m * op.n * op.k;
  if (op.stride_c == 0 || op.batch < 8 || work > 64'000'000) {
    for (std::int64_t b = 0; b < op.batch; ++b) parallel_sgemm(product_of(op, b));
    return;
  }
  const std::int64_t together =
      std::max<std::int64_t>(1, 200'000 / work);  // products that are worth a thread
  const std::int64_t pieces = (op.batch + together - 1) / together;
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(op.batch, (piece + 1) * together);
    for (std::int64_t b = piece * together; b < end; ++b) sgemm(product_of(op, b));
  });
}

COMERA_CPU_END
