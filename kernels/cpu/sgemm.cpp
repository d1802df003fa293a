// The one file that includes oneDNN.
#include "kernels/cpu/sgemm.h"

#include <dnnl.h>

#include <algorithm>

#include "kernels/core/check.h"
#include "kernels/cpu/threads.h"

namespace comera::cpu {

namespace {
// oneDNN would split large products among threads itself, in ways that depend on how many there are. A
// parallel region of one thread does not keep it from doing so; this does.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_ = omp_get_max_threads();
};

void call(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  const float* a = p.a + (p.transpose_a ? row : row * p.lda);
  const float* b = p.b + (p.transpose_b ? column * p.ldb : column);
  const OneThread one_thread;
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', rows, columns, p.k, 1.F, a, p.lda, b,
                 p.ldb, p.accumulate ? 1.F : 0.F, p.c + row * p.ldc + column, p.ldc);
  COMERA_CHECK(status == dnnl_success, "sgemm of {} x {} x {} failed with oneDNN's status {}", rows, columns,
               p.k, static_cast<int>(status));
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
}  // namespace

TilePlan plan_tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t work = 2 * m * n * k;
  if (work < 200'000) return {};
  // About 8 tiles if each is worth a thread's while, of whole register tiles, and not too thin: a tile's
  // operands are packed anew.
  const std::int64_t tiles = std::clamp<std::int64_t>(work / 4'000'000, 2, 8);
  TilePlan plan;
  while (plan.rows * plan.columns < tiles) {
    const std::int64_t tall = m / (2 * plan.rows), wide = n / (2 * plan.columns);
    if (std::max(tall, wide) < 24) break;
    (tall >= wide ? plan.rows : plan.columns) *= 2;
  }
  return plan;
}

void limit_sgemm_to_avx2() { dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); }

void sgemm(const Product& p) {
  if (p.m > 0 && p.n > 0) call(p, 0, p.m, 0, p.n);
}

void parallel_sgemm(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  const TilePlan plan = plan_tiles(p.m, p.n, p.k);
  const std::int64_t height = divide_up(divide_up(p.m, plan.rows), 8) * 8;
  const std::int64_t width = divide_up(divide_up(p.n, plan.columns), 16) * 16;
  const std::int64_t tiles = plan.rows * plan.columns;
  if (tiles == 1) return sgemm(p);
  parallel_pieces(tiles, thread_limit(), [&](std::int64_t i, int) {
    const std::int64_t row = i / plan.columns * height, column = i % plan.columns * width;
    if (row >= p.m || column >= p.n) return;
    call(p, row, std::min(height, p.m - row), column, std::min(width, p.n - column));
  });
}

}  // namespace comera::cpu
