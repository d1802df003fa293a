// Rows of a tensor-train matrix from its left and right factors, and their gradients.

#include "kernels/cuda/elementwise/search.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/tensor_trains/ttm_rows.h"

namespace comera::COMERA_CUDA {

namespace {

struct Factors {
  const float *left, *right;  // (L, nl, rank), (R, rank, nr)
  int nl, nr, rank;
  std::int64_t right_rows;
  const std::int32_t *ids, *count;
  std::int64_t frequent_rows;  // ids below it take no part in products
};

Factors factors_of(const auto& op, const Tensor& frequent) {
  return {op.left.template data<float>(),       op.right.template data<float>(),
          static_cast<int>(op.left.dim(1)),     static_cast<int>(op.right.dim(2)),
          static_cast<int>(op.left.dim(2)),     op.right.dim(0),
          op.ids.template data<std::int32_t>(), op.count.template data<std::int32_t>(),
          frequent ? frequent.dim(0) : 0};
}

// ---- Products of small matrices, X (M, K) Y (K, N): a warp has a tile of one, a lane some rows and columns
// of the tile.

constexpr int lane_tile = 4;
constexpr int lanes_down = 4, lanes_across = 8;
constexpr int tile_m = lane_tile * lanes_down, tile_n = lane_tile * lanes_across;
// The part of K in shared memory at a time, as [k][m] and [k][n]; the padding spreads a column over the
// banks.
constexpr int depth = 16, padding = 4;
constexpr int x_stride = tile_m + padding, y_stride = tile_n + padding;
constexpr int warp_floats = depth * (x_stride + y_stride);

// `size` rows or columns x `depth` of a matrix, a part for each lane, zero beyond its sides. In memory k is
// the inner index if `k_inside`, the outer one otherwise; neighbouring lanes load neighbours.
template <int size, bool k_inside>
struct Part {
  static constexpr int numbers = size * depth / warp;
  static constexpr int apart =
      warp / (k_inside ? depth : size);  // of a lane's numbers, along the outer index
  float at[numbers];

  __device__ static int inner() { return lane_of_thread() % (k_inside ? depth : size); }
  __device__ static int outer() { return lane_of_thread() / (k_inside ? depth : size); }

  // From a matrix with `places` and `depths`, starting at one position of each.
  __device__ __forceinline__ void load(const float* from, int place, int places, int k, int depths) {
    const int stride = k_inside ? depths : places;
    from += k_inside ? place * stride + k : k * stride + place;
    from += outer() * stride + inner();
    const bool inside = inner() < (k_inside ? depths - k : places - place);
    const int rest = (k_inside ? places - place : depths - k) - outer();
#pragma unroll
    for (int i = 0; i < numbers; ++i, from += apart * stride) at[i] = inside && i * apart < rest ? *from : 0;
  }
  __device__ __forceinline__ void store(float* to, int stride) const {
    to += k_inside ? inner() * stride + outer() : outer() * stride + inner();
#pragma unroll
    for (int i = 0; i < numbers; ++i) to[i * apart * (k_inside ? 1 : stride)] = at[i];
  }
};

struct Sizes {
  int m, n, k;
};

template <bool x_k_inside, bool y_k_inside>
struct Tile {
  int first_m, first_n;
  Values<lane_tile> sums[lane_tile] = {};

  __device__ static int down() { return lane_of_thread() / lanes_across * lane_tile; }
  __device__ static int across() { return lane_of_thread() % lanes_across * lane_tile; }

  // The tile of a matrix.
  __device__ __forceinline__ void set(const float* from, int rows, int columns) {
#pragma unroll
    for (int i = 0; i < lane_tile; ++i)
#pragma unroll
      for (int j = 0; j < lane_tile; ++j) {
        const int row = first_m + down() + i, column = first_n + across() + j;
        sums[i].at[j] = row < rows && column < columns ? from[row * columns + column] : 0;
      }
  }

  // Adds a product's tile; `shared`: warp_floats of this warp.
  __device__ __forceinline__ void add(const float* from_x, const float* from_y, const Sizes& sizes,
                                      float* shared) {
    float *x = shared, *y = shared + depth * x_stride;
    for (int k = 0; k < sizes.k; k += depth) {
      Part<tile_m, x_k_inside> part_x;
      Part<tile_n, y_k_inside> part_y;
      part_x.load(from_x, first_m, sizes.m, k, sizes.k);
      part_y.load(from_y, first_n, sizes.n, k, sizes.k);
      __syncwarp();  // all lanes are done with the previous content
      part_x.store(x, x_stride);
      part_y.store(y, y_stride);
      __syncwarp();
#pragma unroll
      for (int d = 0; d < depth; ++d) {
        const Values<lane_tile> left = load<lane_tile>(x + d * x_stride + down()),
                                right = load<lane_tile>(y + d * y_stride + across());
#pragma unroll
        for (int i = 0; i < lane_tile; ++i)
#pragma unroll
          for (int j = 0; j < lane_tile; ++j) sums[i].at[j] += left.at[i] * right.at[j];
      }
    }
  }
};

LaunchShape tiles(std::int64_t blocks, int warps, std::int64_t m, std::int64_t n) {
  return {.grid = {blocks, blocks_for(m, tile_m), blocks_for(n, tile_n)},
          .threads = warp * warps,
          .shared_bytes = static_cast<std::size_t>(warps * warp_floats) * sizeof(float)};
}
__device__ __forceinline__ int first_m_of_block() { return static_cast<int>(blockIdx.y) * tile_m; }
__device__ __forceinline__ int first_n_of_block() { return static_cast<int>(blockIdx.z) * tile_n; }

// ---- Forward. Block (some rows, tile down, tile across): one warp per row.

constexpr int forward_warps = 8;

__global__ void __launch_bounds__(warp* forward_warps)
    ttm_rows_kernel(Factors op, std::int64_t all, const float* frequent, float* rows) {
  auto* shared = shared_array<float>(forward_warps * warp_floats);
  const std::int64_t u = std::int64_t{blockIdx.x} * forward_warps + warp_of_thread();
  if (u >= all) return;
  Tile<true, false> tile{first_m_of_block(), first_n_of_block()};
  if (u < *op.count) {
    const std::int64_t id = op.ids[u];
    if (id < op.frequent_rows)
      tile.set(frequent + id * op.nl * op.nr, op.nl, op.nr);
    else
      tile.add(op.left + id / op.right_rows * op.nl * op.rank,
               op.right + id % op.right_rows * op.rank * op.nr, {op.nl, op.nr, op.rank},
               shared + warp_of_thread() * warp_floats);
  }
  const int column = tile.first_n + tile.across();
  float* to = rows + u * op.nl * op.nr + column;
#pragma unroll
  for (int i = 0; i < lane_tile; ++i) {
    const int row = tile.first_m + tile.down() + i;
    if (row >= op.nl || column >= op.nr) continue;
    if (op.nr % lane_tile == 0) {
      store(to + row * op.nr, tile.sums[i]);
    } else {
#pragma unroll
      for (int j = 0; j < lane_tile; ++j)
        if (column + j < op.nr) to[row * op.nr + j] = tile.sums[i].at[j];
    }
  }
}

void ttm_rows_forward(const TTMRowsForward& op, const KernelContext& context) {
  const Factors factors = factors_of(op, op.frequent);
  const std::int64_t rows = op.rows.dim(0);
  if (rows == 0) return;
  COMERA_LAUNCH(context.stream, tiles(blocks_for(rows, forward_warps), forward_warps, factors.nl, factors.nr),
                ttm_rows_kernel, factors, rows, op.frequent ? op.frequent.data<float>() : nullptr,
                op.rows.data<float>());
}

// ---- Backward. The gradient s (M, N) of a left or right row gets a product from every looked-up row that
// uses it. For a left row, X is the looked-up row's gradient and Y its right row transposed; for a right row,
// X is its left row transposed and Y its gradient. A block has a tile of one such gradient; its warps share
// the looked-up rows, each every 12th, and their sums are added in the order of the warps.

constexpr int row_warps = 12;
static_assert(warp_floats >= tile_m * tile_n, "in the end a warp's sums lie where its operands were");

// Block (left or right row, tile down, tile across). The looked-up rows that use a left row are adjacent,
// since ids ascend; those that use a right row are listed in `order`, null for left rows. Two blocks per
// multiprocessor.
template <bool of_left>
__global__ void __launch_bounds__(warp* row_warps, 2)
    ttm_gradient(Factors op, const std::int32_t* order, const float* drows, float* gradient) {
  auto* shared = shared_array<float>(row_warps * warp_floats);
  const std::int64_t s = blockIdx.x, count = *op.count;
  const Sizes sizes = of_left ? Sizes{op.nl, op.rank, op.nr} : Sizes{op.rank, op.nr, op.nl};
  const auto row_at = [&](std::int64_t place) -> std::int64_t { return of_left ? place : order[place]; };

  // One warp searches the beginning of these rows, one their end.
  auto* ends = reinterpret_cast<std::int64_t*>(shared);
  const int w = warp_of_thread();
  if (w < 2) {
    const std::int64_t place = first_place(count, s + w, [&](std::int64_t p) -> std::int64_t {
      const std::int64_t id = op.ids[row_at(p)];
      return of_left ? id / op.right_rows : id % op.right_rows;
    });
    if (lane_of_thread() == 0) ends[w] = place;
  }
  __syncthreads();
  const std::int64_t begin = ends[0], end = ends[1];
  __syncthreads();
  if (begin == end) return;

  float* own = shared + w * warp_floats;
  Tile<of_left, of_left> tile{first_m_of_block(), first_n_of_block()};
  for (std::int64_t place = begin + w; place < end; place += row_warps) {
    const std::int64_t u = row_at(place), id = op.ids[u];
    if (id < op.frequent_rows) continue;
    const float* drow = drows + u * op.nl * op.nr;
    if (of_left)
      tile.add(drow, op.right + id % op.right_rows * op.rank * op.nr, sizes, own);
    else
      tile.add(op.left + id / op.right_rows * op.nl * op.rank, drow, sizes, own);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < lane_tile; ++i) store(own + (tile.down() + i) * tile_n + tile.across(), tile.sums[i]);
  __syncthreads();
  const int used = static_cast<int>(min(end - begin, std::int64_t{row_warps}));
  for (int e = static_cast<int>(threadIdx.x); e < tile_m * tile_n; e += warp * row_warps) {
    const int row = tile.first_m + e / tile_n, column = tile.first_n + e % tile_n;
    if (row >= sizes.m || column >= sizes.n) continue;
    float sum = 0;
    for (int i = 0; i < used; ++i) sum += shared[i * warp_floats + e];
    gradient[(s * sizes.m + row) * sizes.n + column] += sum;
  }
}

// A block for each looked-up row.
constexpr int frequent_threads = 128;

__global__ void __launch_bounds__(frequent_threads)
    frequent_gradient(Factors op, const float* drows, float* gradient) {
  const std::int64_t u = blockIdx.x;
  if (u >= *op.count || op.ids[u] >= op.frequent_rows) return;
  const int width = op.nl * op.nr;
  const float* from = drows + u * width;
  float* to = gradient + std::int64_t{op.ids[u]} * width;
  for (int j = static_cast<int>(threadIdx.x); j < width; j += frequent_threads) to[j] += from[j];
}

void ttm_rows_backward(const TTMRowsBackward& op, const KernelContext& context) {
  const Factors factors = factors_of(op, op.dfrequent);
  const auto* drows = op.drows.data<float>();
  if (op.dfrequent && op.drows.dim(0) > 0)
    COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.drows.dim(0), 1, 1}, .threads = frequent_threads}),
                  frequent_gradient, factors, drows, op.dfrequent.data<float>());
  COMERA_LAUNCH(context.stream, tiles(op.left.dim(0), row_warps, factors.nl, factors.rank),
                (ttm_gradient<true>), factors, nullptr, drows, op.dleft.data<float>());
  COMERA_LAUNCH(context.stream, tiles(op.right.dim(0), row_warps, factors.rank, factors.nr),
                (ttm_gradient<false>), factors, op.right_order.data<std::int32_t>(), drows,
                op.dright.data<float>());
}

}  // namespace

void register_ttm_rows(Backend& backend, bool /*tf32*/) {
  backend.set<TTMRowsForward>(DType::float32, ttm_rows_forward);
  backend.set<TTMRowsBackward>(DType::float32, ttm_rows_backward);
}

}  // namespace comera::COMERA_CUDA
