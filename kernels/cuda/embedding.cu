// Rows that are looked up and summed, and their gradients: sums in a fixed order, without atomics.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/embedding.h"

namespace comera::COMERA_CUDA {

namespace {

template <class T>
struct SummedEmbeddings {
  const float *rows, *positions, *types;  // positions: or null
  const std::int32_t *index, *position_ids, *type_ids;
  std::int64_t width;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t t = i / width, column = i % width;
    Values<V> sum = load<V>(rows + index[t] * width + column);
    Values<V> position{};
    if (positions != nullptr) position = load<V>(positions + position_ids[t] * width + column);
    const Values<V> type = load<V>(types + type_ids[t] * width + column);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] = sum.at[k] + position.at[k] + type.at[k];
    store(y + i, sum);
  }
};

template <class T>
void embedding_sum(const EmbeddingSum& op, const KernelContext& context) {
  each(context.stream,
       SummedEmbeddings<T>{op.rows.data<float>(), op.positions ? op.positions.data<float>() : nullptr,
                           op.types.data<float>(), ints(op.index),
                           op.positions ? ints(op.position_ids) : nullptr, ints(op.type_ids), op.y.dim(1),
                           op.y.data<T>()},
       op.y.elements(), op.y.dim(1));
}

// A thread sums V columns of a segment, in the order of its rows.
template <class T>
struct SummedSegments {
  const T* dy;
  const std::int32_t *order, *offsets, *count, *ids;  // ids: or null
  std::int64_t width;
  float* out;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t u = i / width, column = i % width;
    const bool real = u < *count;
    if (ids != nullptr && !real) return;
    float* to = out + (ids != nullptr ? ids[u] : u) * width + column;
    Values<V> sum{};
    if (ids != nullptr) sum = load<V>(to);
    if (real)
      for (std::int32_t place = offsets[u]; place < offsets[u + 1]; ++place) {
        const Values<V> row = load<V>(dy + order[place] * width + column);
#pragma unroll
        for (int k = 0; k < V; ++k) sum.at[k] += row.at[k];
      }
    store(to, sum);
  }
};

template <class T>
void segment_sum(const SegmentSum& op, const KernelContext& context) {
  const std::int64_t width = op.dy.dim(1), segments = op.offsets.elements() - 1;
  each(context.stream,
       SummedSegments<T>{op.dy.data<T>(), ints(op.order), ints(op.offsets), ints(op.count),
                         op.ids ? ints(op.ids) : nullptr, width, op.out.data<float>()},
       segments * width, width);
}

constexpr int table_threads = 128;

// Block (row, columns, part of the tokens): the tokens with that id are found together and summed in order.
template <class T, int V>
__global__ void __launch_bounds__(table_threads)
    table_gradient_kernel(const T* dy, const std::int32_t* ids, const std::int32_t* count,
                          std::int64_t tokens, std::int64_t width, float* partial) {
  constexpr int warps = table_threads / warp;
  auto* found = shared_array<unsigned>(warps);  // a bit for each thread
  const auto row = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t column = (std::int64_t{blockIdx.y} * table_threads + threadIdx.x) * V;
  const std::int64_t part = (tokens + gridDim.z - 1) / gridDim.z;
  const std::int64_t begin = blockIdx.z * part;
  const std::int64_t end = min(min(begin + part, tokens), std::int64_t{*count});
  Values<V> sum{};
  for (std::int64_t some = begin; some < end; some += table_threads) {
    const std::int64_t own = some + threadIdx.x;
    const unsigned votes = __ballot_sync(all_lanes, own < end && ids[own] == row ? 1 : 0);
    if (lane_of_thread() == 0) found[warp_of_thread()] = votes;
    __syncthreads();
    if (column < width)
      for (int w = 0; w < warps; ++w)
        for (unsigned left = found[w]; left != 0; left &= left - 1) {
          const int lane = __popc((left & (0u - left)) - 1);
          const Values<V> value = load<V>(dy + (some + w * warp + lane) * width + column);
#pragma unroll
          for (int k = 0; k < V; ++k) sum.at[k] += value.at[k];
        }
    __syncthreads();
  }
  if (column < width) store(partial + (std::int64_t{blockIdx.z} * gridDim.x + row) * width + column, sum);
}

// Parts of the tokens: more where a table has few rows, so that every multiprocessor has work.
std::int64_t table_parts(const TableGradient& op) {
  return std::clamp<std::int64_t>(128 / op.dtable.dim(0), 1, 64);
}

std::size_t table_gradient_scratch(const TableGradient& op) {
  return static_cast<std::size_t>(table_parts(op) * op.dtable.elements()) * sizeof(float);
}

template <class T>
void table_gradient(const TableGradient& op, const KernelContext& context) {
  const std::int64_t rows = op.dtable.dim(0), width = op.dtable.dim(1), parts = table_parts(op);
  if (rows == 0 || width == 0) return;
  auto* partial = reinterpret_cast<float*>(context.scratch);
  const int v = vector_of(width);
  const LaunchShape shape{.grid = {rows, blocks_for(width, table_threads * v), parts},
                          .threads = table_threads,
                          .shared_bytes = table_threads / warp * sizeof(unsigned)};
  if (v == 4)
    COMERA_LAUNCH(context.stream, shape, (table_gradient_kernel<T, 4>), op.dy.data<T>(), ints(op.ids),
                  ints(op.count), op.dy.dim(0), width, partial);
  else
    COMERA_LAUNCH(context.stream, shape, (table_gradient_kernel<T, 1>), op.dy.data<T>(), ints(op.ids),
                  ints(op.count), op.dy.dim(0), width, partial);
  add_partial_sums(context.stream, partial, parts, rows * width, 1, {{op.dtable.data<float>()}});
}

template <class T>
void register_for(Backend& backend) {
  backend.set<EmbeddingSum>(dtype_of<T>, embedding_sum<T>);
  backend.set<SegmentSum>(dtype_of<T>, segment_sum<T>);
  backend.set<TableGradient>(dtype_of<T>, table_gradient<T>, table_gradient_scratch);
}

}  // namespace

void register_embedding(Backend& backend, bool /*tf32*/) {
  register_for<float>(backend);
  register_for<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
