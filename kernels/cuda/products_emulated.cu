// Matrix products of the emulated backend: on the host, as work of the stream.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/matrix_product.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T, class C>
void multiply(const MatrixProduct& op) {
  const std::int64_t lda = op.leading_a(), ldb = op.leading_b(), ldc = op.leading_c();
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    const T* a = op.a.data<T>() + batch * op.stride_a;
    const T* b = op.b.data<T>() + batch * op.stride_b;
    C* c = op.c.data<C>() + batch * op.stride_c;
    for (std::int64_t i = 0; i < op.m; ++i)
      for (std::int64_t j = 0; j < op.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < op.k; ++l)
          sum += static_cast<double>(static_cast<float>(op.transpose_a ? a[l * lda + i] : a[i * lda + l])) *
                 static_cast<float>(op.transpose_b ? b[j * ldb + l] : b[l * ldb + j]);
        C& to = c[i * ldc + j];
        if (op.accumulate) sum += static_cast<float>(to);
        to = static_cast<C>(static_cast<float>(sum));
      }
  }
}

void matrix_product(const MatrixProduct& op, const KernelContext& context) {
  const bool narrow = op.compute() == DType::bfloat16, narrow_result = op.c.dtype() == DType::bfloat16;
  put("product", stream_of(context.stream),
      [op, function = !narrow         ? multiply<float, float>
                      : narrow_result ? multiply<bfloat16, bfloat16>
                                      : multiply<bfloat16, float>] { function(op); });
}

}  // namespace

void register_products(Backend& backend) {
  backend.set<MatrixProduct>(DType::float32, matrix_product);
  backend.set<MatrixProduct>(DType::bfloat16, matrix_product);
}

}  // namespace comera::COMERA_CUDA
