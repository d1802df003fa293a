// Matrix products of the emulated backend: on the host, as work of the stream.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_cores.h"
#include "kernels/ops/float8.h"
#include "kernels/ops/matrix_product.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T, bool tf32>
double operand(T value) {
  if constexpr (tf32) return __uint_as_float(round_to_tf32(value));
  return static_cast<float>(value);
}

template <class T, class C, bool tf32 = false>
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
          sum += operand<T, tf32>(op.transpose_a ? a[l * lda + i] : a[i * lda + l]) *
                 operand<T, tf32>(op.transpose_b ? b[j * ldb + l] : b[l * ldb + j]);
        C& to = c[i * ldc + j];
        if (op.accumulate) sum += static_cast<float>(to);
        to = static_cast<C>(static_cast<float>(sum));
      }
  }
}

// Σ a b as Hopper's tensor cores sum 8-bit products. Without `fast` what was summed is added to a float32
// number after every 128 products.
template <class A, class B>
float sum_of_products(const A* a, const B* b, std::int64_t count, bool fast) {
  constexpr int at_a_time = emulation::products_of_8_bit;
  constexpr std::int64_t promoted_after = 128;
  float sum = 0, part = 0;
  for (std::int64_t begin = 0; begin < count; begin += at_a_time) {
    double addends[at_a_time + 1] = {part};
    for (std::int64_t i = begin; i < std::min(begin + at_a_time, count); ++i)
      addends[i - begin + 1] = static_cast<double>(static_cast<float>(a[i])) * static_cast<float>(b[i]);
    part = emulation::tensor_core_sum(addends, at_a_time + 1, emulation::kept_bits_of_8_bit);
    if (!fast && (begin + at_a_time) % promoted_after == 0) sum += part, part = 0;
  }
  return sum + part;
}

template <class A, class B, class C>
void multiply_float8(const Float8Product& op) {
  const std::int64_t lda = op.leading_a(), ldb = op.leading_b(), ldc = op.leading_c();
  const A* a = op.a.data<A>();
  const B* b = op.b.data<B>();
  C* c = op.c.data<C>();
  const auto inverse = [](const Tensor& scale) {
    return static_cast<double>(static_cast<const Float8Scale*>(scale.raw())->inverse);
  };
  const double unscaled = inverse(op.scale_a) * inverse(op.scale_b);
  for (std::int64_t i = 0; i < op.m; ++i)
    for (std::int64_t j = 0; j < op.n; ++j) {
      C& to = c[i * ldc + j];
      double sum = sum_of_products(a + i * lda, b + j * ldb, op.k, op.fast) * unscaled;
      if (op.accumulate) sum += static_cast<float>(to);
      to = static_cast<C>(static_cast<float>(sum));
    }
}

template <class A, class B>
auto float8_function(DType c) {
  return c == DType::bfloat16 ? multiply_float8<A, B, bfloat16> : multiply_float8<A, B, float>;
}

void float8_product(const Float8Product& op, const KernelContext& context) {
  using E4M3 = float8_e4m3;
  using E5M2 = float8_e5m2;
  const DType c = op.c.dtype();
  const auto function = op.a.dtype() == DType::float8_e5m2   ? float8_function<E5M2, E4M3>(c)
                        : op.b.dtype() == DType::float8_e5m2 ? float8_function<E4M3, E5M2>(c)
                                                             : float8_function<E4M3, E4M3>(c);
  put("product of 8-bit operands", stream_of(context.stream), [op, function] { function(op); });
}

void put_product(void (*function)(const MatrixProduct&), const MatrixProduct& op,
                 const KernelContext& context) {
  put("product", stream_of(context.stream), [op, function] { function(op); });
}

template <bool tf32>
void product(const MatrixProduct& op, const KernelContext& context) {
  put_product(multiply<float, float, tf32>, op, context);
}

void narrow_product(const MatrixProduct& op, const KernelContext& context) {
  put_product(op.c.dtype() == DType::bfloat16 ? multiply<bfloat16, bfloat16> : multiply<bfloat16, float>, op,
              context);
}

}  // namespace

void register_matrix_product(Backend& backend, bool tf32) {
  backend.set<MatrixProduct>(DType::float32, tf32 ? product<true> : product<false>);
  backend.set<MatrixProduct>(DType::bfloat16, narrow_product);
  for (const DType type : {DType::float32, DType::bfloat16}) backend.set<Float8Product>(type, float8_product);
}

}  // namespace comera::COMERA_CUDA
