// The only file that includes oneDNN.
#include "kernels/cpu/products/sgemm.h"

#include <dnnl.h>
#include <sys/mman.h>

#include <algorithm>

#include "kernels/core/check.h"
#include "kernels/core/tensors/memory.h"
#include "kernels/cpu/threads.h"

namespace comera::cpu {

namespace {
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

// oneDNN generates code for this processor at its first product, and crashes if the system has no memory left
// for it. This is checked once, before that.
void require_memory_for_code() {
  [[maybe_unused]] static const bool enough = [] {
    constexpr std::size_t bytes = std::size_t{32} << 20;
    void* place =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
      throw OutOfMemory(
          "there is not enough memory for the code of matrix products; use smaller batches or a smaller "
          "model");
    munmap(place, bytes);
    return true;
  }();
}
}  // namespace

TilePlan plan_tiles(const Product& p) {
  const std::int64_t work = 2 * p.m * p.n * p.k;
  if (work < 200'000) return {};
  // Operands are packed for each tile separately: 4 tiles, or 8 large ones if packing is cheap; each large
  // enough for a thread.
  const std::int64_t most = p.transpose_a ? 4 : 8;
  const std::int64_t tiles = std::clamp<std::int64_t>(work / 4'000'000, 2, most);
  TilePlan plan;
  while (plan.rows * plan.columns < tiles) {
    const std::int64_t tall = p.m / (2 * plan.rows), wide = p.n / (2 * plan.columns);
    const std::int64_t least = plan.rows * plan.columns >= 4 ? 256 : 24;
    // oneDNN transposes B again for each tile, which takes longer than a product with few rows.
    const bool only = plan.rows * plan.columns == 1 && wide < least;  // no other way to use two threads
    const bool divides_rows = tall >= wide && (only || !(p.transpose_b && tall < 128));
    if ((divides_rows ? tall : wide) < least) break;
    (divides_rows ? plan.rows : plan.columns) *= 2;
  }
  return plan;
}

void limit_sgemm_to_avx2() { dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); }

void library_sgemm(const Product& p) {
  dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1.F, p.a, p.lda, p.b, p.ldb,
             p.accumulate ? 1.F : 0.F, p.c, p.ldc);
}

void sgemm(const Product& p) {
  require_memory_for_code();
  if (p.m > 0 && p.n > 0) call(p, 0, p.m, 0, p.n);
}

void parallel_sgemm(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  require_memory_for_code();
  const TilePlan plan = plan_tiles(p);
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
