#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::cpu {

// C = op(A) op(B), or C += with accumulate, for row-major float matrices with row strides lda, ldb, ldc.
struct Product {
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

// Fixed tiles of C, chosen by the shape alone, distributed over the threads.
struct TilePlan {
  std::int64_t rows = 1, columns = 1;  // number of tiles down and across
};
TilePlan plan_tiles(const Product& product);

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Makes forced v3 give v3's bits on newer processors too; call it before the first product.
void limit_sgemm_to_avx2();

// On the calling thread.
void sgemm(const Product& product);
// On all threads; bit-identical for any number of them.
void parallel_sgemm(const Product& product);
// With oneDNN's threading, whose bits may depend on the number of threads: only for comparison.
void library_sgemm(const Product& product);

}  // namespace comera::cpu
