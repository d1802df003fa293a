#include <algorithm>

#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/products/bf16_blocks.h"
#include "kernels/cpu/products/narrow_matrix_product.h"
#include "kernels/cpu/scratch.h"

COMERA_CPU_BEGIN

namespace {
// Tiles of C depend on the shape alone; `steps_of_k` elements of k are processed at a time.
constexpr std::int64_t tile_size = 256, steps_of_k = 1024;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Tiles are nearly equal, in whole blocks, to balance the threads.
std::int64_t equal_tiles(std::int64_t size) {
  return whole_blocks(divide_up(size, divide_up(size, tile_size)));
}

// Thread-local: rows of A that are not in the layout of blocks, and sums.
struct Thread {
  bfloat16* rest = nullptr;
  float* sums = nullptr;
};
Thread take(Scratch& scratch) {
  return {scratch.narrow(tile_size * steps_of_k), scratch.floats(tile_size * tile_size)};
}

// One product of a batch, and the buffers of its packed operands.
class Bf16Product {
 public:
  Bf16Product(const MatrixProduct& op, Scratch& scratch)
      : op_(op),
        lda_(op.leading_a()),
        ldb_(op.leading_b()),
        ldc_(op.leading_c()),
        depth_(whole_blocks(op.k)),
        tall_(equal_tiles(op.m)),
        wide_(equal_tiles(op.n)),
        panels_(scratch.narrow(depth_ * whole_blocks(op.n))),
        packed_a_(op.transpose_a ? scratch.narrow(depth_ * whole_blocks(op.m)) : nullptr) {}

  void pack(std::int64_t batch, int threads) const {
    const bfloat16* b = op_.b.data<bfloat16>() + batch * op_.stride_b;
    for_pieces(op_.n, threads, [&](std::int64_t j, std::int64_t l, std::int64_t steps) {
      bf16_pack_panel(b + (op_.transpose_b ? j * ldb_ + l : l * ldb_ + j), ldb_, op_.transpose_b, steps,
                      std::min(bf16_block, op_.n - j), panels_ + j * depth_ + l * bf16_block);
    });
    if (!op_.transpose_a) return;
    const bfloat16* a = op_.a.data<bfloat16>() + batch * op_.stride_a;
    for_pieces(op_.m, threads, [&](std::int64_t i, std::int64_t l, std::int64_t steps) {
      bf16_pack_rows(a + l * lda_ + i, lda_, true, std::min(bf16_block, op_.m - i), steps,
                     packed_a_ + i * depth_ + l, depth_);
    });
  }

  std::int64_t tiles() const { return divide_up(op_.m, tall_) * divide_up(op_.n, wide_); }

  // For some steps of k, the tile's part of A stays in the L2 cache with its sums, and a panel of B in the L1
  // cache.
  void tile(std::int64_t batch, std::int64_t index, const Thread& thread) const {
    const std::int64_t across = divide_up(op_.n, wide_);
    const std::int64_t i0 = index / across * tall_, j0 = index % across * wide_;
    const std::int64_t height = std::min(tall_, op_.m - i0), width = std::min(wide_, op_.n - j0);
    const bool at_once = depth_ <= steps_of_k;
    for (std::int64_t l = 0; l < depth_; l += steps_of_k) {
      const std::int64_t steps = std::min(steps_of_k, op_.k - l);
      Bf16Rows rows[tile_size / bf16_block];
      for (std::int64_t i = 0; i < height; i += bf16_block)
        rows[i / bf16_block] = rows_from(batch, i0 + i, l, steps, thread.rest + i * steps_of_k);
      Bf16Rows& last = rows[(height - 1) / bf16_block];
      last.rows = (height - 1) % bf16_block + 1;
      for (std::int64_t j = 0; j < width; j += bf16_block) {
        const bfloat16* panel = panels_ + (j0 + j) * depth_ + l * bf16_block;
        for (std::int64_t i = 0; i < height; i += bf16_block) {
          float* sums = thread.sums + (at_once ? 0 : i * tile_size + j);
          const std::int64_t ld = at_once ? bf16_block : tile_size;
          bf16_multiply(rows[i / bf16_block], panel, sums, ld, l > 0, width - j);
          if (l + steps_of_k >= depth_) store(sums, ld, batch, i0 + i, j0 + j);
        }
      }
    }
  }

 private:
  // body(first of 32 rows or columns, first of k, steps of k), so that neighbours in memory are read
  // together.
  template <class Body>
  void for_pieces(std::int64_t count, int threads, const Body& body) const {
    constexpr std::int64_t together = 8 * bf16_block, steps = 256;
    const std::int64_t across = (count + together - 1) / together, down = (op_.k + steps - 1) / steps;
    if (count * op_.k < 65536) threads = 1;
    parallel_pieces(across * down, threads, [&](std::int64_t piece, int) {
      const std::int64_t l = piece / across * steps, first = piece % across * together;
      for (std::int64_t i = first; i < std::min(count, first + together); i += bf16_block)
        body(i, l, std::min(steps, op_.k - l));
    });
  }

  // The 32 rows from i, elements [l, l + steps).
  Bf16Rows rows_from(std::int64_t batch, std::int64_t i, std::int64_t l, std::int64_t steps,
                     bfloat16* rest) const {
    if (op_.transpose_a)
      return {packed_a_ + i * depth_ + l, depth_, divide_up(steps, bf16_block), nullptr, last_pairs(steps)};
    const bfloat16* a = op_.a.data<bfloat16>() + batch * op_.stride_a + i * lda_ + l;
    return bf16_rows(a, lda_, std::min(bf16_block, op_.m - i), steps, rest);
  }

  void store(const float* sums, std::int64_t ld, std::int64_t batch, std::int64_t i, std::int64_t j) const {
    const std::int64_t at = batch * op_.stride_c + i * ldc_ + j;
    const std::int64_t rows = std::min(bf16_block, op_.m - i), columns = std::min(bf16_block, op_.n - j);
    if (op_.c.dtype() == DType::float32)
      return bf16_store(sums, ld, rows, columns, op_.c.data<float>() + at, ldc_, op_.accumulate);
    bf16_store(sums, ld, rows, columns, op_.c.data<bfloat16>() + at, ldc_, op_.accumulate);
  }

  const MatrixProduct& op_;
  std::int64_t lda_, ldb_, ldc_, depth_;
  std::int64_t tall_, wide_;  // of a tile
  bfloat16 *panels_, *packed_a_;
};

bool is_empty(const MatrixProduct& op) { return op.m == 0 || op.n == 0 || op.k == 0; }
}  // namespace

std::size_t bf16_matrix_product_scratch(const MatrixProduct& op) {
  if (is_empty(op)) return 0;
  const auto threads = static_cast<std::size_t>(thread_limit());
  Scratch product, thread;
  const Bf16Product counted(op, product);
  take(thread);
  if (op.batch > 1 && batch_fills_threads(op)) return threads * (product.bytes() + thread.bytes());
  return product.bytes() + threads * thread.bytes();
}

void bf16_matrix_product(const MatrixProduct& op, const KernelContext& context) {
  if (op.k == 0) clear_narrow_product(op);
  if (is_empty(op)) return;
  const int threads = thread_limit();
  if (op.batch > 1 && batch_fills_threads(op)) {
    const std::size_t each = context.scratch_bytes / static_cast<std::size_t>(threads);
    return for_batch(op, [&](std::int64_t batch, int thread) {
      Scratch scratch(context.scratch + each * static_cast<std::size_t>(thread));
      const Bf16Product product(op, scratch);
      const Thread own = take(scratch);
      product.pack(batch, 1);
      const Bf16Tiles tiles;
      for (std::int64_t i = 0; i < product.tiles(); ++i) product.tile(batch, i, own);
    });
  }
  Scratch scratch(context.scratch);
  const Bf16Product product(op, scratch);
  const std::size_t each = (context.scratch_bytes - scratch.bytes()) / static_cast<std::size_t>(threads);
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    product.pack(batch, threads);
    parallel_pieces(product.tiles(), threads, [&](std::int64_t i, int thread) {
      Scratch own(context.scratch + scratch.bytes() + each * static_cast<std::size_t>(thread));
      const Bf16Tiles tiles;
      product.tile(batch, i, take(own));
    });
  }
}

COMERA_CPU_END
