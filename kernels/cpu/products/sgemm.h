#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::cpu {

// C = op(A) op(B), or C += with accumulate, of row-major float matrices with rows lda, ldb, ldc apart.
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

// Fixed tiles of C, chosen by the shape alone, shared out among the threads.
struct TilePlan {
  std::int64_t rows = 1, columns = 1;  // tiles down and across
};
TilePlan plan_tiles(const Product& product);

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// So that forced v3 gives v3's bits on newer processors too; before the first product.
void limit_sgemm_to_avx2();

// On the calling thread.
void sgemm(const Product& product);
// On all threads; the same bits for any number of them.
void parallel_sgemm(const Product& product);
// With oneDNN's own threading, whose bits may depend on the number of threads: only to measure against.
void library_sgemm(const Product& product);

}  // namespace comera::cpu
