#include "kernels/ops/products/matrix_product.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {
// Elements from the first to the last that a rows x columns matrix and its batches touch.
std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t batch,
                    std::int64_t stride) {
  return rows == 0 || columns == 0 ? 0 : (batch - 1) * stride + (rows - 1) * ld + columns;
}

void check_operand(const char* name, const Tensor& tensor, DType dtype, std::int64_t rows,
                   std::int64_t columns, std::int64_t ld, std::int64_t batch, std::int64_t stride) {
  COMERA_CHECK(tensor.dtype() == dtype, "MatrixProduct: {} must be {}, not {}", name, name_of(dtype),
               name_of(tensor.dtype()));
  COMERA_CHECK(ld >= columns, "MatrixProduct: {} has rows of {} elements only {} apart", name, columns, ld);
  const std::int64_t needed = extent(rows, columns, ld, batch, stride);
  COMERA_CHECK(needed <= tensor.elements(),
               "MatrixProduct: {} {} is too small for {} x {} with rows {} apart", name,
               tensor.shape().text(), rows, columns, ld);
}
}  // namespace

void MatrixProduct::check() const {
  COMERA_CHECK(m >= 0 && n >= 0 && k >= 0 && batch >= 1,
               "MatrixProduct: impossible size {} x {} x {}, batch {}", m, n, k, batch);
  COMERA_CHECK(batch == 1 || accumulate || stride_c >= m * n || ldc > n,
               "MatrixProduct: a batch writes to overlapping results");
  check_operand("a", a, compute(), transpose_a ? k : m, transpose_a ? m : k, leading_a(), batch, stride_a);
  check_operand("b", b, compute(), transpose_b ? n : k, transpose_b ? k : n, leading_b(), batch, stride_b);
  check_operand("c", c, c.dtype() == compute() ? compute() : master_of(compute()), m, n, leading_c(), batch,
                stride_c);
}

Work work_of(const MatrixProduct& op) {
  const auto matrices = [&](std::int64_t elements, bool all_different, DType dtype) {
    return bytes_of(elements * (all_different ? op.batch : 1), dtype);
  };
  const double c = matrices(op.m * op.n, op.stride_c != 0, op.c.dtype());
  return {product(op.m, op.n, op.k) * static_cast<double>(op.batch),
          matrices(op.m * op.k, op.stride_a != 0, op.a.dtype()) +
              matrices(op.k * op.n, op.stride_b != 0, op.b.dtype()) + (op.accumulate ? 2 * c : c)};
}

void BiasedProduct::check() const {
  const char* name = "BiasedProduct";
  product.check();
  COMERA_CHECK(product.batch == 1 && !product.accumulate && product.leading_c() == product.n,
               "{}: a batch, a sum or rows of c that are {} apart", name, product.leading_c());
  check_tensor(name, "bias", bias, {product.n}, master_of(compute()));
  check_optional(name, "rounded", rounded, {product.n}, compute());
}

Work work_of(const BiasedProduct& op) {
  Work work = work_of(op.product);
  work.bytes += bytes_of(op.product.n, op.product.c.dtype());
  return work;
}

void MatrixProducts::check() const {
  COMERA_CHECK(!products.empty(), "MatrixProducts: no product was given");
  for (const MatrixProduct& one : products) {
    COMERA_CHECK(one.compute() == compute(), "MatrixProducts: products of {} and of {}", name_of(compute()),
                 name_of(one.compute()));
    one.check();
  }
}

Work work_of(const MatrixProducts& op) {
  Work all;
  for (const MatrixProduct& one : op.products) all += work_of(one);
  return all;
}

}  // namespace comera
