#include "kernels/cpu/products/narrow_matrix_product.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"

COMERA_CPU_BEGIN

// Operands are widened to single precision for oneDNN's sgemm, B as a whole, A and C some rows at a time:
// oneDNN's kernels for AVX-512 BF16 are slower. Processors that multiply bfloat16 use
// bf16_matrix_product.cpp.
namespace {
constexpr std::int64_t block_rows = 1024;

struct Wide {
  float *a = nullptr, *b = nullptr, *c = nullptr;
};
Wide take(const MatrixProduct& op, Scratch& scratch) {
  const std::int64_t rows = std::min(block_rows, op.m);
  Wide wide;
  wide.a = scratch.floats(rows * op.k);
  wide.b = scratch.floats(op.k * op.n);
  if (op.c.dtype() == DType::bfloat16) wide.c = scratch.floats(rows * op.n);
  return wide;
}

// body(row) for all rows.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t columns, const Body& body) {
  constexpr std::int64_t together = 16;
  const int threads = rows * columns < flat_piece ? 1 : thread_limit();
  parallel_pieces((rows + together - 1) / together, threads, [&](std::int64_t piece, int) {
    for (std::int64_t i = piece * together; i < std::min(rows, (piece + 1) * together); ++i) body(i);
  });
}

void widen(const bfloat16* from, std::int64_t ld, std::int64_t rows, std::int64_t columns, float* to) {
  for_rows(rows, columns, [&](std::int64_t i) {
    for_columns(0, columns,
                [&](std::int64_t c, auto at) { at.store(to + i * columns + c, at.load(from + i * ld + c)); });
  });
}

void narrow(const float* from, std::int64_t rows, const MatrixProduct& op, bfloat16* to) {
  for_rows(rows, op.n, [&](std::int64_t i) {
    bfloat16* row = to + i * op.leading_c();
    for_columns(0, op.n, [&](std::int64_t c, auto at) {
      const vec value = at.load(from + i * op.n + c);
      at.store(row + c, op.accumulate ? at.load(row + c) + value : value);
    });
  });
}

void one_product(const MatrixProduct& op, std::int64_t batch, const Wide& wide) {
  const bfloat16* a = op.a.data<bfloat16>() + batch * op.stride_a;
  const std::int64_t rows_of_b = op.transpose_b ? op.n : op.k, columns_of_b = op.transpose_b ? op.k : op.n;
  widen(op.b.data<bfloat16>() + batch * op.stride_b, op.leading_b(), rows_of_b, columns_of_b, wide.b);
  for (std::int64_t begin = 0; begin < op.m; begin += block_rows) {
    const std::int64_t rows = std::min(block_rows, op.m - begin);
    if (op.transpose_a) {
      widen(a + begin, op.leading_a(), op.k, rows, wide.a);
    } else {
      widen(a + begin * op.leading_a(), op.leading_a(), rows, op.k, wide.a);
    }
    const std::int64_t place = batch * op.stride_c + begin * op.leading_c();
    Product product{op.transpose_a, op.transpose_b, false,  rows,
                    op.n,           op.k,           wide.a, op.transpose_a ? rows : op.k,
                    wide.b,         columns_of_b,   wide.c, op.n};
    if (op.c.dtype() == DType::float32) {
      product.accumulate = op.accumulate;
      product.c = op.c.data<float>() + place, product.ldc = op.leading_c();
      parallel_sgemm(product);
    } else {
      parallel_sgemm(product);
      narrow(wide.c, rows, op, op.c.data<bfloat16>() + place);
    }
  }
}
}  // namespace

std::size_t narrow_matrix_product_scratch(const MatrixProduct& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <>
void matrix_product<bfloat16>(const MatrixProduct& op, const KernelContext& context) {
  if (op.m == 0 || op.n == 0) return;
  if (op.k == 0) return clear_narrow_product(op);
  Scratch scratch(context.scratch);
  const Wide wide = take(op, scratch);
  for (std::int64_t b = 0; b < op.batch; ++b) one_product(op, b, wide);
}

COMERA_CPU_END
