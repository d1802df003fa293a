#pragma once

#include <algorithm>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

// Kernels of one shape around small operations, which are structs with a call operator for the device.
namespace comera::COMERA_CUDA {

// Ids, offsets and counts.
inline const std::int32_t* ints(const Tensor& tensor) { return tensor.data<std::int32_t>(); }

template <int V, class Operation>
__global__ void __launch_bounds__(256) each_kernel(Operation op, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * V;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V; i < count; i += step)
    op.template run<V>(i);
}

// op.run<V>(i) for i = 0, V, 2V, … below count: on V neighbouring numbers. V is 4 if `width` is a multiple of
// it, else 1.
template <class Operation>
void each(const Stream& stream, const Operation& op, std::int64_t count, std::int64_t width) {
  if (count == 0) return;
  constexpr std::int64_t most_blocks = 8192;
  const int v = vector_of(width);
  const LaunchShape shape{.grid = {std::min(blocks_for(count, 256 * v), most_blocks)}, .threads = 256};
  if (v == 4)
    COMERA_LAUNCH(stream, shape, (each_kernel<4, Operation>), op, count);
  else
    COMERA_LAUNCH(stream, shape, (each_kernel<1, Operation>), op, count);
}

inline constexpr int column_groups = 8;  // warps of a block, each with every eighth row

// A block works on 32 V columns of some of the rows; the operation's values are summed over them.
template <int V, class Operation>
__global__ void __launch_bounds__(warp* column_groups)
    columns_kernel(Operation op, std::int64_t rows, std::int64_t width, std::int64_t rows_each,
                   float* partial) {
  auto* sums = shared_array<float>(warp * V * column_groups);
  const std::int64_t column = (std::int64_t{blockIdx.x} * warp + lane_of_thread()) * V;
  const std::int64_t begin = blockIdx.y * rows_each;
  const std::int64_t end = min(begin + rows_each, rows);
  Values<V> sum{};
  if (column < width)
    for (std::int64_t row = begin + warp_of_thread(); row < end; row += column_groups) {
      const Values<V> value = op.template run<V>(row, column);
#pragma unroll
      for (int i = 0; i < V; ++i) sum.at[i] += value.at[i];
    }
  if (partial == nullptr) return;
#pragma unroll
  for (int i = 0; i < V; ++i) sums[threadIdx.x * V + i] = sum.at[i];
  __syncthreads();
  if (warp_of_thread() > 0 || column >= width) return;
  for (int group = 1; group < column_groups; ++group)
#pragma unroll
    for (int i = 0; i < V; ++i) sum.at[i] += sums[(group * warp + threadIdx.x) * V + i];
  store(partial + blockIdx.y * width + column, sum);
}

inline std::int64_t column_pieces(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 64, 1, 64); }
// Scratch of a column pass with a sum.
inline std::size_t column_scratch(std::int64_t rows, std::int64_t width) {
  return static_cast<std::size_t>(column_pieces(rows) * width) * sizeof(float);
}

// op.run<V>(row, column) for all rows and columns, V columns at a time; sum[column] += Σ over rows of what it
// returns, always added in the same order; null: not summed. scratch: column_scratch() bytes.
template <class Operation>
void each_column(const Stream& stream, const Operation& op, std::int64_t rows, std::int64_t width, float* sum,
                 std::byte* scratch) {
  if (rows == 0 || width == 0) return;
  const std::int64_t pieces = column_pieces(rows), rows_each = blocks_for(rows, pieces);
  const int v = vector_of(width);
  const LaunchShape shape{.grid = {blocks_for(width, warp * v), pieces},
                          .threads = warp * column_groups,
                          .shared_bytes = sizeof(float) * static_cast<std::size_t>(warp * v * column_groups)};
  auto* partial = sum != nullptr ? reinterpret_cast<float*>(scratch) : nullptr;
  if (v == 4)
    COMERA_LAUNCH(stream, shape, (columns_kernel<4, Operation>), op, rows, width, rows_each, partial);
  else
    COMERA_LAUNCH(stream, shape, (columns_kernel<1, Operation>), op, rows, width, rows_each, partial);
  if (sum != nullptr) add_partial_sums(stream, partial, pieces, width, 1, {{sum}});
}

}  // namespace comera::COMERA_CUDA
