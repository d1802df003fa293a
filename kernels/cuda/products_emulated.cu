// Matrix products of the emulated backend: on the host, as work of the stream.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/matrix_product.h"

namespace comera::COMERA_CUDA {

namespace {

void multiply(const MatrixProduct& op) {
  const std::int64_t lda = op.leading_a(), ldb = op.leading_b(), ldc = op.leading_c();
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    const float* a = op.a.data<float>() + batch * op.stride_a;
    const float* b = op.b.data<float>() + batch * op.stride_b;
    float* c = op.c.data<float>() + batch * op.stride_c;
    for (std::int64_t i = 0; i < op.m; ++i)
      for (std::int64_t j = 0; j < op.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < op.k; ++l)
          sum += static_cast<double>(op.transpose_a ? a[l * lda + i] : a[i * lda + l]) *
                 (op.transpose_b ? b[j * ldb + l] : b[l * ldb + j]);
        float& to = c[i * ldc + j];
        to = static_cast<float>(op.accumulate ? to + sum : sum);
      }
  }
}

void matrix_product(const MatrixProduct& op, const KernelContext& context) {
  put("product", stream_of(context.stream), [op] { multiply(op); });
}

}  // namespace

void register_products(Backend& backend) { backend.set<MatrixProduct>(DType::float32, matrix_product); }

}  // namespace comera::COMERA_CUDA
