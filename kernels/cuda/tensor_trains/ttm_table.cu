// Rows of a tensor-train matrix: one product whose result is stored with its middle axes swapped.
//
// Per element of the result: 2 rank multiply-adds in float32, and one store of its own type. At rank 64 and
// in bfloat16 arithmetic bounds it: 64 multiply-adds for 2 bytes.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/tensor_trains/ttm_table.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int tile = 64;       // rows (l, a) and columns (r, b) of the product per block
constexpr int depth = 16;      // of the contracted rank at a time
constexpr int stride = 68;     // row stride in shared memory; a multiple of 16 bytes
constexpr int per_thread = 4;  // rows and columns per thread
constexpr int threads = tile * tile / (per_thread * per_thread);

template <class T>
struct Table {
  const float *left, *right;                    // (L nl, rank), (rank, R nr)
  T* rows;                                      // (L, R, nl, nr)
  int left_columns, right_rows, right_columns;  // nl, R, nr
  int m, n, rank;                               // L nl, R nr
};

// V: elements moved at once, 4 if all sizes are multiples of it, else 1.
template <int V, class T>
__global__ void __launch_bounds__(threads) ttm_table_kernel(Table<T> op) {
  auto* a = shared_array<float>(2 * depth * stride);  // (depth, tile), transposed
  float* b = a + depth * stride;                      // (depth, tile)
  const int first_row = static_cast<int>(blockIdx.y) * tile,
            first_column = static_cast<int>(blockIdx.x) * tile;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / (tile / per_thread) * per_thread,
            column = thread % (tile / per_thread) * per_thread;
  float sums[per_thread][per_thread] = {};
  for (int k = 0; k < op.rank; k += depth) {
    // A thread reads `per_thread` neighbours of a row of left, and of a row of right.
    const int left_row = thread / (depth / per_thread), left_k = thread % (depth / per_thread) * per_thread;
    const int right_k = thread / (tile / per_thread),
              right_column = thread % (tile / per_thread) * per_thread;
#pragma unroll
    for (int i = 0; i < per_thread; i += V) {
      Values<V> from_left{}, from_right{};
      if (first_row + left_row < op.m && k + left_k + i < op.rank)
        from_left = load<V>(op.left + std::int64_t{first_row + left_row} * op.rank + k + left_k + i);
      if (k + right_k < op.rank && first_column + right_column + i < op.n)
        from_right = load<V>(op.right + std::int64_t{k + right_k} * op.n + first_column + right_column + i);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        a[(left_k + i + v) * stride + left_row] = from_left.at[v];
        b[right_k * stride + right_column + i + v] = from_right.at[v];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < depth; ++i) {
      const Values<per_thread> x = load<per_thread>(a + i * stride + row),
                               y = load<per_thread>(b + i * stride + column);
#pragma unroll
      for (int r = 0; r < per_thread; ++r)
#pragma unroll
        for (int c = 0; c < per_thread; ++c) sums[r][c] += x.at[r] * y.at[c];
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < per_thread; ++r) {
    const int l_a = first_row + row + r;
    if (l_a >= op.m) return;
    const int l = l_a / op.left_columns, a_of = l_a % op.left_columns;
#pragma unroll
    for (int i = 0; i < per_thread; i += V) {
      const int r_b = first_column + column + i;
      if (r_b >= op.n) break;
      const int r_of = r_b / op.right_columns, b_of = r_b % op.right_columns;
      Values<V> values;
#pragma unroll
      for (int v = 0; v < V; ++v) values.at[v] = sums[r][i + v];
      const std::int64_t at = (std::int64_t{l} * op.right_rows + r_of) * op.left_columns + a_of;
      store(op.rows + at * op.right_columns + b_of, values);
    }
  }
}

template <class T>
void ttm_table_forward(const TTMTableForward& op, const KernelContext& context) {
  const auto size = [](std::int64_t value) {
    COMERA_CHECK(value <= 0x7fffffff, "a token table is too large for a GPU's kernels");
    return static_cast<int>(value);
  };
  const Table<T> table{.left = op.left.data<float>(),
                       .right = op.right.data<float>(),
                       .rows = op.rows.data<T>(),
                       .left_columns = size(op.left.dim(1)),
                       .right_rows = size(op.right.dim(1)),
                       .right_columns = size(op.right.dim(2)),
                       .m = size(op.left.dim(0) * op.left.dim(1)),
                       .n = size(op.right.dim(1) * op.right.dim(2)),
                       .rank = size(op.left.dim(2))};
  if (table.m == 0 || table.n == 0) return;
  constexpr std::int64_t most = std::int64_t{65535} * tile;
  COMERA_CHECK(table.m <= most,
               "the left factor of a token table has {} rows, of which a GPU's kernels take {}", table.m,
               most);
  const LaunchShape shape{.grid = {blocks_for(table.n, tile), blocks_for(table.m, tile)},
                          .threads = threads,
                          .shared_bytes = std::size_t{2} * depth * stride * sizeof(float)};
  if (table.rank % per_thread == 0 && table.right_columns % per_thread == 0)
    COMERA_LAUNCH(context.stream, shape, (ttm_table_kernel<per_thread, T>), table);
  else
    COMERA_LAUNCH(context.stream, shape, (ttm_table_kernel<1, T>), table);
}

}  // namespace

void register_ttm_table(Backend& backend, bool /*tf32*/) {
  backend.set<TTMTableForward>(DType::float32, ttm_table_forward<float>);
  backend.set<TTMTableForward>(DType::bfloat16, ttm_table_forward<bfloat16>);
}

}  // namespace comera::COMERA_CUDA
