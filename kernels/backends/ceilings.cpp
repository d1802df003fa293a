#include "kernels/backends/ceilings.h"

#include <immintrin.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/threads.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// There are many short windows, and the best counts: some are undisturbed by other work on the machine.
constexpr std::int64_t rounds = 100'000;
constexpr int windows = 400;
constexpr int chains = 12;  // enough independent multiply-adds to hide their latency

// Keeps a value alive without storing it.
template <class T>
void keep(T& value) {
  asm volatile("" : "+x"(value));
}

__attribute__((target("avx2,fma"))) double multiply_adds_avx2() {
  __m256 sum[chains];
  for (auto& s : sum) s = _mm256_set1_ps(1.F);
  __m256 factor = _mm256_set1_ps(0.999F), term = _mm256_set1_ps(0.001F);
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm256_fmadd_ps(s, factor, term);
  for (auto& s : sum) keep(s);
  return 2.0 * 8 * chains * rounds;
}

__attribute__((target("avx512f"))) double multiply_adds_avx512() {
  __m512 sum[chains];
  for (auto& s : sum) s = _mm512_set1_ps(1.F);
  __m512 factor = _mm512_set1_ps(0.999F), term = _mm512_set1_ps(0.001F);
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm512_fmadd_ps(s, factor, term);
  for (auto& s : sum) asm volatile("" : "+v"(s));
  return 2.0 * 16 * chains * rounds;
}

double measure_flops() {
  const int threads = omp_get_max_threads();
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  double total = 0;  // of each thread's best window
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    double best = 0;
    for (int window = 0; window < windows; ++window) {
      const auto start = Clock::now();
      const double flops = wide ? multiply_adds_avx512() : multiply_adds_avx2();
      best = std::max(best, flops / seconds_since(start));
    }
    total += best;
  }
  return total;
}

double measure_copy() {
  const std::int64_t count = std::int64_t{16} << 20;
  std::vector<float> from(count, 1.F), to(count, 2.F);
  const int threads = omp_get_max_threads();
  double best = 0;
  for (int repeat = 0; repeat < 40; ++repeat) {
    const auto start = Clock::now();
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t piece = 0; piece < 64; ++piece)
      std::memcpy(to.data() + piece * (count / 64), from.data() + piece * (count / 64),
                  count / 64 * sizeof(float));
    best = std::max(best, 2.0 * static_cast<double>(count) * sizeof(float) / seconds_since(start));
  }
  return best;
}

}  // namespace

Ceilings measure_ceilings() { return {measure_flops(), measure_copy()}; }

double library_product_seconds(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                               bool transpose_b, int repeats) {
  std::vector<float> a(m * k, 0.5F), b(k * n, 0.25F), c(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6.F;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 11) - 5.F;
  const cpu::Product product{.transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .accumulate = false,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a.data(),
                             .lda = transpose_a ? m : k,
                             .b = b.data(),
                             .ldb = transpose_b ? k : n,
                             .c = c.data(),
                             .ldc = n};
  double best = 1e30;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    cpu::library_sgemm(product);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace comera
