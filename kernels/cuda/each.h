#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/products/part_sums.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

// Generic kernels for small operations, which are structs with a call operator for the device.
namespace comera::COMERA_CUDA {

// Ids, offsets and counts.
inline const std::int32_t* ints(const Tensor& tensor) { return tensor.data<std::int32_t>(); }

template <int V, class Operation>
__global__ void __launch_bounds__(256) each_kernel(Operation op, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * V;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V; i < count; i += step)
    op.template run<V>(i);
}

// The maximum number of neighbouring elements that an operation takes at once: 4, or its own at_once.
template <class Operation>
constexpr int most_at_once() {
  if constexpr (requires { Operation::at_once; })
    return Operation::at_once;
  else
    return 4;
}

// The same for rows whose width must be a multiple; calls f with that constant.
template <class Operation>
int at_once_in(std::int64_t width) {
  return width % most_at_once<Operation>() == 0 ? most_at_once<Operation>() : vector_of(width);
}
template <class Operation>
void with_at_once(std::int64_t width, auto&& f) {
  const int v = at_once_in<Operation>(width);
  if (v == most_at_once<Operation>()) return f(std::integral_constant<int, most_at_once<Operation>()>());
  if constexpr (most_at_once<Operation>() != 4)
    if (v == 4) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 1>());
}

// op.run<V>(i) for i = 0, V, 2V, … below count: on V neighbouring elements. V is the operation's own at_once,
// 4 or 1: the largest that divides `width`.
template <class Operation>
void each(const Stream& stream, const Operation& op, std::int64_t count, std::int64_t width) {
  if (count == 0) return;
  constexpr std::int64_t most_blocks = 8192;
  with_at_once<Operation>(width, [&]<int V>(std::integral_constant<int, V>) {
    const LaunchShape shape{.grid = {std::min(blocks_for(count, 256 * V), most_blocks)}, .threads = 256};
    COMERA_LAUNCH(stream, shape, (each_kernel<V, Operation>), op, count);
  });
}

// A block processes 32 V columns of some of the rows, with its warps alternating over the rows, and sums the
// operation's values. Inputs of several rows are read before the first of them is written.
template <int V, class Operation>
__global__ void __launch_bounds__(1024) columns_kernel(Operation op, std::int64_t rows, std::int64_t width,
                                                       std::int64_t rows_each, float* partial, float* total) {
  constexpr int rows_at_once = V > 1 ? 2 : 4;
  const int groups = static_cast<int>(blockDim.x) / warp;
  auto* sums = shared_array<float>(static_cast<std::size_t>(blockDim.x) * V);
  const std::int64_t column = (std::int64_t{blockIdx.x} * warp + lane_of_thread()) * V;
  const std::int64_t begin = blockIdx.y * rows_each;
  const std::int64_t end = min(begin + rows_each, rows);
  Values<V> sum{};
  if (column < width)
    for (std::int64_t first = begin + warp_of_thread(); first < end; first += rows_at_once * groups) {
      typename Operation::template Item<V> items[rows_at_once];
#pragma unroll
      for (int r = 0; r < rows_at_once; ++r)
        if (first + r * groups < end) items[r] = op.template item<V>(first + r * groups, column);
#pragma unroll
      for (int r = 0; r < rows_at_once; ++r) {
        if (first + r * groups >= end) continue;
        const Values<V> value = op.run(items[r], first + r * groups, column);
#pragma unroll
        for (int i = 0; i < V; ++i) sum.at[i] += value.at[i];
      }
    }
  if (total == nullptr) return;
  store(sums + threadIdx.x * V, sum);
  __syncthreads();
  if (warp_of_thread() > 0 || column >= width) return;
  for (int group = 1; group < groups; ++group) {
    const Values<V> part = load<V>(sums + (group * warp + threadIdx.x) * V);
#pragma unroll
    for (int i = 0; i < V; ++i) sum.at[i] += part.at[i];
  }
  if (gridDim.y > 1) {
    store(partial + blockIdx.y * width + column, sum);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) total[column + i] += sum.at[i];
  }
}

// The number of row parts whose sums another launch adds; a small matrix has a single part.
inline std::int64_t column_pieces(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t few_rows = 1024, few_columns = 256, most_pieces = 128;
  if (rows <= few_rows && width <= few_columns) return 1;
  return std::clamp<std::int64_t>(rows / 128, 1, most_pieces);
}
// Scratch of a column pass with a sum.
inline std::size_t column_scratch(std::int64_t rows, std::int64_t width) {
  const std::int64_t pieces = column_pieces(rows, width);
  return pieces == 1 ? 0 : static_cast<std::size_t>(pieces * width) * sizeof(float);
}

// op.run(op.item<V>(row, column), row, column) for all rows and columns, V columns at a time; sum[column] +=
// Σ over rows of the returned values, always in the same order; null: not summed. scratch: column_scratch()
// bytes.
template <class Operation>
void each_column(const Stream& stream, const Operation& op, std::int64_t rows, std::int64_t width, float* sum,
                 std::byte* scratch) {
  if (rows == 0 || width == 0) return;
  const std::int64_t pieces = column_pieces(rows, width), rows_each = blocks_for(rows, pieces);
  // A block that has all rows has as many warps as can be used.
  constexpr std::int64_t usual_groups = 8, most_groups = 32;
  const auto groups =
      static_cast<int>(std::min(blocks_for(rows_each, 4), pieces == 1 ? most_groups : usual_groups));
  auto* partial = reinterpret_cast<float*>(scratch);
  with_at_once<Operation>(width, [&]<int V>(std::integral_constant<int, V>) {
    const LaunchShape shape{.grid = {blocks_for(width, warp * V), pieces},
                            .threads = warp * groups,
                            .shared_bytes = sizeof(float) * static_cast<std::size_t>(warp * V * groups)};
    COMERA_LAUNCH(stream, shape, (columns_kernel<V, Operation>), op, rows, width, rows_each, partial, sum);
  });
  if (sum != nullptr && pieces > 1)
    add_part_sums(stream, {{.parts = partial,
                            .apart = width,
                            .to = sum,
                            .count = static_cast<int>(pieces),
                            .columns = static_cast<int>(width)}});
}

}  // namespace comera::COMERA_CUDA
