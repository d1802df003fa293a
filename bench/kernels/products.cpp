#include <dnnl.h>

#include <cstring>

#include "bench/kernels/bench.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

namespace {

struct Size {
  const char* name;
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
};
const Size sizes[] = {
    {"NN_4096x768x768", false, false, 4096, 768, 768},  {"NN_4096x3072x768", false, false, 4096, 3072, 768},
    {"NT_4096x768x3072", false, true, 4096, 768, 3072}, {"TN_768x3072x4096", true, false, 768, 3072, 4096},
    {"NN_4096x30x768", false, false, 4096, 30, 768},    {"NN_4096x768x30", false, false, 4096, 768, 30},
    {"TN_768x30x4096", true, false, 768, 30, 4096},     {"TN_30x768x4096", true, false, 30, 768, 4096},
    {"NT_4096x30x768", false, true, 4096, 30, 768},     {"NN_512x768x768", false, false, 512, 768, 768},
    {"NN_12x1920x12", false, false, 12, 1920, 12},      {"NN_360x96x30", false, false, 360, 96, 30},
};

void raw_sgemm(benchmark::State& state, const Size& s) {
  Bench bench;
  const Tensor a = bench.tensor({s.m, s.k}), b = bench.tensor({s.k, s.n}), c = bench.tensor({s.m, s.n});
  for (auto _ : state) {
    dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a.data<float>(),
               s.transpose_a ? s.m : s.k, b.data<float>(), s.transpose_b ? s.k : s.n, 0, c.data<float>(),
               s.n);
  }
  flops(state, 2.0 * s.m * s.n * s.k);
}

template <DType type>
void matrix_product(benchmark::State& state, const Size& s) {
  Bench bench;
  MatrixProduct op;
  op.a = bench.tensor({s.m, s.k}, type), op.b = bench.tensor({s.k, s.n}, type);
  op.c = bench.tensor({s.m, s.n}, type);
  op.m = s.m, op.n = s.n, op.k = s.k, op.transpose_a = s.transpose_a, op.transpose_b = s.transpose_b;
  bench.loop(state, op);
  flops(state, 2.0 * s.m * s.n * s.k);
}

void copy_bandwidth(benchmark::State& state) {
  Bench bench;
  const Tensor x = bench.tensor({tokens, inner}), y = bench.tensor({tokens, inner});
  for (auto _ : state) {
#pragma omp parallel for
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::memcpy(y.data<float>() + i * inner, x.data<float>() + i * inner, inner * sizeof(float));
    }
  }
  traffic(state, 2.0 * x.bytes());
}
BENCHMARK(copy_bandwidth)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

void add_product_benchmarks() {
  for (const Size& size : sizes) {
    add_benchmark("sgemm", raw_sgemm, size);
    add_benchmark("MatrixProduct", matrix_product<DType::float32>, size);
    add_benchmark("MatrixProduct/bfloat16", matrix_product<DType::bfloat16>, size);
  }
}

}  // namespace comera
