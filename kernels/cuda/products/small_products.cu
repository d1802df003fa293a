#include "kernels/cuda/products/small_products.h"

#include "kernels/cuda/products/grouped.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int tile = 16;    // rows and columns of c per block: products are small, and blocks many
constexpr int depth = 256;  // of a and b, read at once: whole for most products
constexpr int warps = 8;    // each sums every eighth product
constexpr int stride = 20;  // row stride in shared memory; a multiple of 16 bytes
constexpr int threads = warps * warp;
constexpr int rows_each = 2, columns_each = 4;  // of c per thread
constexpr std::size_t shared_floats = std::size_t{2} * depth * stride;
static_assert(warps * tile * tile <= shared_floats && tile * tile == threads);

constexpr int at_once = 8;  // loads that a thread issues before it waits

// Loads a part of a matrix, `across` columns wide, into shared memory. A row of `to` is one element along the
// summed dimension: a column or a row of the matrix. Rows beyond its end are left as they are and never read;
// other elements outside the matrix are zero. A thread stays in one column.
template <int across, bool columns_are_summed>
__device__ __forceinline__ void read(const Matrix& from, int batch, int rows, int columns, int first_row,
                                     int first_column, float* to) {
  constexpr int step = threads / across, count = depth * tile / threads;
  const int x = static_cast<int>(threadIdx.x) % across, y = static_cast<int>(threadIdx.x) / across;
  const int column = first_column + x;
  if (columns_are_summed && column >= columns) return;
  const int needed = columns_are_summed ? count * step : min(count * step, rows - first_row);
  const int inside = column < columns ? rows - first_row - y : 0;  // rows from the thread's first one on
  const int within = inside > 0 ? column % from.group : 0;
  const float gate = inside > 0 && from.gate != nullptr ? from.gate[within] : 1.F;
  const float* at = from.data + std::int64_t{batch} * from.next;
  if (inside > 0) at += std::int64_t{first_row + y} * from.ld + column / from.group * from.apart + within;
  to += columns_are_summed ? x * stride + y : y * stride + x;
#pragma unroll 1
  for (int begin = 0; begin * step < needed; begin += at_once) {
    float values[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i, at += std::int64_t{step} * from.ld)
      values[i] = (begin + i) * step < inside ? *at : 0.F;
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      to[(begin + i) * step * (columns_are_summed ? 1 : stride)] = values[i] * gate;
  }
}

// `tile` elements starting at `first`, and `depth` starting at k along the summed dimension: the matrix's
// columns or rows.
__device__ __forceinline__ void read(const Matrix& from, int batch, bool columns_are_summed, int size,
                                     int summed, int first, int k, float* to) {
  if (columns_are_summed)
    read<depth, true>(from, batch, size, summed, first, k, to);
  else
    read<tile, false>(from, batch, summed, size, k, first, to);
}

template <int most>
__global__ void __launch_bounds__(threads, 4)
    small_products_kernel(const Grouped<SmallProduct, most> __grid_constant__ products) {
  const auto [op, block_of_all] = piece_of_block(products);
  const int batch = block_of_all / op.blocks, block = block_of_all % op.blocks;
  const int first_row = block / op.blocks_across * tile, first_column = block % op.blocks_across * tile;
  auto* shared = shared_array<float>(shared_floats);
  float *a = shared, *b = shared + depth * stride;

  const int row = lane_of_thread() / 4 * rows_each, column = lane_of_thread() % 4 * columns_each;
  float sums[rows_each][columns_each] = {};
  for (int k = 0; k < op.k; k += depth) {
    read(op.a, batch, !op.transpose_a, op.m, op.k, first_row, k, a);
    read(op.b, batch, op.transpose_b, op.n, op.k, first_column, k, b);
    __syncthreads();
    const int end = min(depth, op.k - k);
#pragma unroll 4
    for (int i = warp_of_thread(); i < end; i += warps) {
      const int at = i * stride;
      const Values<rows_each> left = load<rows_each>(a + at + row);
      const Values<columns_each> right = load<columns_each>(b + at + column);
#pragma unroll
      for (int y = 0; y < rows_each; ++y)
#pragma unroll
        for (int x = 0; x < columns_each; ++x) sums[y][x] += left.at[y] * right.at[x];
    }
    __syncthreads();
  }

  // Adds the warps' sums in order.
#pragma unroll
  for (int y = 0; y < rows_each; ++y)
#pragma unroll
    for (int x = 0; x < columns_each; ++x)
      shared[(warp_of_thread() * tile + row + y) * tile + column + x] = sums[y][x];
  __syncthreads();
  const int x = static_cast<int>(threadIdx.x) % tile, y = static_cast<int>(threadIdx.x) / tile;
  if (first_column + x >= op.n || first_row + y >= op.m) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) sum += shared[(w * tile + y) * tile + x];
  float& to = op.c.data[std::int64_t{batch} * op.c.next + std::int64_t{first_row + y} * op.c.ld +
                        (first_column + x) / op.c.group * op.c.apart + (first_column + x) % op.c.group];
  to = op.accumulate ? to + sum : sum;
}

}  // namespace

int narrow(std::int64_t size) {
  COMERA_CHECK(size <= 0x7fffffff, "a product is too large for a GPU's kernels");
  return static_cast<int>(size);
}

Matrix rows_of(float* data, std::int64_t columns) {
  return {.data = data, .ld = narrow(columns), .group = narrow(columns), .apart = narrow(columns)};
}

void Waves::add(int wave, const SmallProduct& product) {
  if (static_cast<int>(waves_.size()) <= wave) waves_.resize(wave + 1);
  SmallProduct& added = waves_[wave].emplace_back(product);
  added.blocks_across = narrow(blocks_for(product.n, tile));
  added.blocks = narrow(blocks_for(product.m, tile) * added.blocks_across);
}

void Waves::launch(const Stream& stream) const {
  for (const auto& wave : waves_)
    launch_grouped(
        wave, [](const SmallProduct& product) { return std::int64_t{product.batch} * product.blocks; },
        [&]<int most>(const Grouped<SmallProduct, most>& some, std::int64_t blocks) {
          COMERA_LAUNCH(stream, (LaunchShape{{blocks}, threads, shared_floats * sizeof(float)}),
                        small_products_kernel<most>, some);
        });
}

}  // namespace comera::COMERA_CUDA
