#include "kernels/ops/products/matrix_product.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void matrix_product(const MatrixProduct& op, const KernelContext&) {
  const std::int64_t lda = op.leading_a(), ldb = op.leading_b(), ldc = op.leading_c();
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    const T* a = op.a.data<T>() + batch * op.stride_a;
    const T* b = op.b.data<T>() + batch * op.stride_b;
    T* c = op.c.data<T>() + batch * op.stride_c;
    for (std::int64_t i = 0; i < op.m; ++i) {
      T* row = c + i * ldc;
      if (!op.accumulate)
        for (std::int64_t j = 0; j < op.n; ++j) row[j] = 0;
      if (op.transpose_b) {
        for (std::int64_t j = 0; j < op.n; ++j) {
          T sum = 0;
          for (std::int64_t k = 0; k < op.k; ++k)
            sum += (op.transpose_a ? a[k * lda + i] : a[i * lda + k]) * b[j * ldb + k];
          row[j] += sum;
        }
      } else {
        for (std::int64_t k = 0; k < op.k; ++k) {
          const T factor = op.transpose_a ? a[k * lda + i] : a[i * lda + k];
          for (std::int64_t j = 0; j < op.n; ++j) row[j] += factor * b[k * ldb + j];
        }
      }
    }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<MatrixProduct>(dtype_of<T>, matrix_product<T>);
}

}  // namespace

void register_matrix_product(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
