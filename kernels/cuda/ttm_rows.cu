// Rows of a tensor-train matrix from its merged halves, and their gradients.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/search.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/ttm_rows.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;

struct Halves {
  const float *left, *right;  // (L, nl, rank), (R, rank, nr)
  int nl, nr, rank;
  std::int64_t right_rows;
  const std::int32_t *ids, *count;
};

Halves halves_of(const auto& op) {
  return {op.left.template data<float>(),       op.right.template data<float>(),
          static_cast<int>(op.left.dim(1)),     static_cast<int>(op.right.dim(2)),
          static_cast<int>(op.left.dim(2)),     op.right.dim(0),
          op.ids.template data<std::int32_t>(), op.count.template data<std::int32_t>()};
}

// A block computes a row from its two halves, which it keeps in shared memory.
__global__ void __launch_bounds__(threads) ttm_rows_kernel(Halves op, float* rows) {
  const std::int64_t u = blockIdx.x, width = op.nl * op.nr;
  float* row = rows + u * width;
  if (u >= *op.count) {
    for (std::int64_t j = threadIdx.x; j < width; j += threads) row[j] = 0;
    return;
  }
  auto* left = shared_array<float>(static_cast<std::size_t>((op.nl + op.nr) * op.rank));
  float* right = left + op.nl * op.rank;
  const std::int64_t id = op.ids[u];
  const float* from_left = op.left + id / op.right_rows * op.nl * op.rank;
  const float* from_right = op.right + id % op.right_rows * op.rank * op.nr;
  for (std::int64_t j = threadIdx.x; j < op.nl * op.rank; j += threads) left[j] = from_left[j];
  for (std::int64_t j = threadIdx.x; j < op.nr * op.rank; j += threads) right[j] = from_right[j];
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < width; j += threads) {
    const std::int64_t a = j / op.nr, b = j % op.nr;
    float sum = 0;
    for (std::int64_t k = 0; k < op.rank; ++k) sum += left[a * op.rank + k] * right[k * op.nr + b];
    row[j] = sum;
  }
}

void ttm_rows_forward(const TTMRowsForward& op, const KernelContext& context) {
  const Halves halves = halves_of(op);
  if (op.rows.dim(0) == 0) return;
  const LaunchShape shape{
      .grid = {op.rows.dim(0)},
      .threads = threads,
      .shared_bytes = static_cast<std::size_t>((halves.nl + halves.nr) * halves.rank) * sizeof(float)};
  COMERA_LAUNCH(context.stream, shape, ttm_rows_kernel, halves, op.rows.data<float>());
}

// The gradient of a half is a sum of products of small matrices: its matrix s (M, N) is added to by
// X (M, K) Y (K, N) of every row of the table that uses it. For the left half X is the row's gradient and Y
// the row's right half turned round, for the right half X is the row's left half turned round and Y the row's
// gradient. A block has a tile of one matrix; its warps share the rows, each every 12th, and their sums are
// added in the order of the warps.
constexpr int row_warps = 12;
constexpr int lane_tile = 4;                     // rows and columns of a lane's numbers
constexpr int lanes_down = 4, lanes_across = 8;  // of a warp on the tile
constexpr int tile_m = lane_tile * lanes_down, tile_n = lane_tile * lanes_across;
// So much of K is in shared memory at once, as [k][m] and [k][n]; the padding spreads a column over the
// banks.
constexpr int depth = 16, padding = 4;
constexpr int x_stride = tile_m + padding, y_stride = tile_n + padding;
constexpr int warp_floats = depth * (x_stride + y_stride);
static_assert(warp_floats >= tile_m * tile_n, "in the end a warp's sums lie where its operands were");

// Elements [first, first + size) x [k, k + depth) of a matrix, a part for each lane, zero beyond its sides.
// In memory k is the inner index if `k_inside`, the outer one otherwise; lanes take neighbours.
template <int size, bool k_inside>
struct Part {
  static constexpr int numbers = size * depth / warp;
  static constexpr int apart =
      warp / (k_inside ? depth : size);  // of a lane's numbers, along the outer index
  float at[numbers];

  __device__ static int inner() { return lane_of_thread() % (k_inside ? depth : size); }
  __device__ static int outer() { return lane_of_thread() / (k_inside ? depth : size); }

  // places and depths: what there is from here on.
  __device__ __forceinline__ void load(const float* from, int places, int depths, int stride) {
    from += outer() * stride + inner();
    const bool inside = inner() < (k_inside ? depths : places);
    const int rest = (k_inside ? places : depths) - outer();
#pragma unroll
    for (int i = 0; i < numbers; ++i, from += apart * stride) at[i] = inside && i * apart < rest ? *from : 0;
  }
  __device__ __forceinline__ void store(float* to, int stride) const {
    to += k_inside ? inner() * stride + outer() : outer() * stride + inner();
#pragma unroll
    for (int i = 0; i < numbers; ++i) to[i * apart * (k_inside ? 1 : stride)] = at[i];
  }
};

// Block (matrix, tile down, tile across). The rows that use a left half are neighbours, since ids ascend;
// those that use a right half are in `order`, null for the left one. Two blocks for each multiprocessor.
template <bool of_left>
__global__ void __launch_bounds__(warp* row_warps, 2)
    ttm_gradient(Halves op, const std::int32_t* order, const float* drows, float* gradient) {
  auto* shared = shared_array<float>(row_warps * warp_floats);
  const std::int64_t s = blockIdx.x, count = *op.count;
  const int m = of_left ? op.nl : op.rank, n = of_left ? op.rank : op.nr, k = of_left ? op.nr : op.nl;
  const int first_m = static_cast<int>(blockIdx.y) * tile_m, first_n = static_cast<int>(blockIdx.z) * tile_n;
  const auto row_at = [&](std::int64_t place) -> std::int64_t { return of_left ? place : order[place]; };

  // One warp looks for where the matrix's rows begin, one for where they end.
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

  float* x = shared + w * warp_floats;
  float* y = x + depth * x_stride;
  const int down = lane_of_thread() / lanes_across * lane_tile,
            across = lane_of_thread() % lanes_across * lane_tile;
  Values<lane_tile> sums[lane_tile] = {};
  for (std::int64_t place = begin + w; place < end; place += row_warps) {
    const std::int64_t u = row_at(place), id = op.ids[u];
    const float* drow = drows + u * op.nl * op.nr;
    const float* from_x = of_left ? drow : op.left + id / op.right_rows * op.nl * op.rank;
    const float* from_y = of_left ? op.right + id % op.right_rows * op.rank * op.nr : drow;
    for (int some = 0; some < k; some += depth) {
      Part<tile_m, of_left> part_x;
      Part<tile_n, of_left> part_y;
      part_x.load(from_x + (of_left ? first_m * k + some : some * m + first_m), m - first_m, k - some,
                  of_left ? k : m);
      part_y.load(from_y + (of_left ? first_n * k + some : some * n + first_n), n - first_n, k - some,
                  of_left ? k : n);
      __syncwarp();  // all lanes have read what was there
      part_x.store(x, x_stride);
      part_y.store(y, y_stride);
      __syncwarp();
#pragma unroll
      for (int d = 0; d < depth; ++d) {
        const Values<lane_tile> left = load<lane_tile>(x + d * x_stride + down),
                                right = load<lane_tile>(y + d * y_stride + across);
#pragma unroll
        for (int i = 0; i < lane_tile; ++i)
#pragma unroll
          for (int j = 0; j < lane_tile; ++j) sums[i].at[j] += left.at[i] * right.at[j];
      }
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < lane_tile; ++i) store(x + (down + i) * tile_n + across, sums[i]);
  __syncthreads();
  const int used = static_cast<int>(min(end - begin, std::int64_t{row_warps}));
  for (int e = static_cast<int>(threadIdx.x); e < tile_m * tile_n; e += warp * row_warps) {
    const int row = first_m + e / tile_n, column = first_n + e % tile_n;
    if (row >= m || column >= n) continue;
    float sum = 0;
    for (int i = 0; i < used; ++i) sum += shared[i * warp_floats + e];
    gradient[(s * m + row) * n + column] += sum;
  }
}

void ttm_rows_backward(const TTMRowsBackward& op, const KernelContext& context) {
  const Halves halves = halves_of(op);
  const auto shape = [](std::int64_t matrices, std::int64_t m, std::int64_t n) {
    return LaunchShape{.grid = {matrices, blocks_for(m, tile_m), blocks_for(n, tile_n)},
                       .threads = warp * row_warps,
                       .shared_bytes = row_warps * warp_floats * sizeof(float)};
  };
  const auto* drows = op.drows.data<float>();
  COMERA_LAUNCH(context.stream, shape(op.left.dim(0), halves.nl, halves.rank), (ttm_gradient<true>), halves,
                nullptr, drows, op.dleft.data<float>());
  COMERA_LAUNCH(context.stream, shape(op.right.dim(0), halves.rank, halves.nr), (ttm_gradient<false>), halves,
                op.right_order.data<std::int32_t>(), drows, op.dright.data<float>());
}

}  // namespace

void register_ttm_rows(Backend& backend, bool /*tf32*/) {
  backend.set<TTMRowsForward>(DType::float32, ttm_rows_forward);
  backend.set<TTMRowsBackward>(DType::float32, ttm_rows_backward);
}

}  // namespace comera::COMERA_CUDA
