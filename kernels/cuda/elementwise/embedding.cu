// Lookups and sums of rows, and their gradients: sums in a fixed order, without atomics.

#include "kernels/cuda/each.h"
#include "kernels/cuda/elementwise/search.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/products/part_sums.h"
#include "kernels/ops/elementwise/embedding.h"

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

// Adds rows of dy, in the order of positions [begin, end) with step `step`; row_at maps a position to a row.
// Several loads are in flight at once; beyond the end zeros are added.
template <int at_once, int V, class T>
__device__ __forceinline__ void add_rows(Values<V>& sum, const T* dy, std::int64_t width, std::int64_t column,
                                         int begin, int end, int step, auto&& row_at) {
  for (int place = begin; place < end; place += at_once * step) {
    int row[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) row[i] = place + i * step < end ? row_at(place + i * step) : -1;
    Waiting<T, V> rows[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      rows[i] = {};
      if (row[i] >= 0) rows[i] = load_waiting<V>(dy + row[i] * width + column);
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const Values<V> values = values_of(rows[i]);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.at[k] += values.at[k];
    }
  }
}

constexpr std::int64_t long_segment = 32;

template <class T>
struct Segments {
  const T* dy;
  const std::int32_t *order, *offsets, *count, *ids;  // ids: or null
  std::int64_t width, segments;
  float* out;
};

// A thread sums V columns of a segment, in the order of its rows. Long segments are left to the kernel below.
template <class T>
struct SummedSegments : Segments<T> {
  template <int V>
  __device__ void run(std::int64_t i) const {
    const auto& op = *this;
    const std::int64_t u = i / op.width, column = i % op.width;
    const bool real = u < *op.count;
    if (op.ids != nullptr && !real) return;
    const int begin = op.offsets[u], end = op.offsets[u + 1];
    if (real && end - begin > long_segment) return;
    float* to = op.out + (op.ids != nullptr ? op.ids[u] : u) * op.width + column;
    Values<V> sum{};
    if (op.ids != nullptr) sum = load<V>(to);
    if (real) add_rows<4>(sum, op.dy, op.width, column, begin, end, 1, [&](int at) { return op.order[at]; });
    store(to, sum);
  }
};

constexpr int segment_warps = 16;

// Block (position, columns): the long segment whose first row divisible by 32 is at that position. Each warp
// sums every 16th of its rows, and the warps' sums are added in order.
template <class T, int V>
__global__ void __launch_bounds__(warp* segment_warps, 2) long_segments_kernel(Segments<T> op) {
  auto* sums = shared_array<float>(warp * V * segment_warps);
  const std::int64_t count = min(std::int64_t{*op.count}, op.segments);
  const std::int64_t place = blockIdx.x * long_segment;
  // The last segment that begins there or before: of those with one beginning, all others are empty.
  const std::int64_t u =
      first_place(count, place + 1, [&](std::int64_t p) -> std::int64_t { return op.offsets[p]; }) - 1;
  if (u < 0) return;
  const int begin = op.offsets[u], end = op.offsets[u + 1];
  if (end <= place || end - begin <= long_segment || place - begin >= long_segment) return;
  const std::int64_t column = (std::int64_t{blockIdx.y} * warp + lane_of_thread()) * V;
  Values<V> sum{};
  if (column < op.width)
    add_rows<8>(sum, op.dy, op.width, column, begin + warp_of_thread(), end, segment_warps,
                [&](int at) { return op.order[at]; });
  store(sums + threadIdx.x * V, sum);
  __syncthreads();
  if (warp_of_thread() > 0 || column >= op.width) return;
  float* to = op.out + (op.ids != nullptr ? op.ids[u] : u) * op.width + column;
  if (op.ids != nullptr) {
    const Values<V> before = load<V>(to);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += before.at[k];
  }
  for (int w = 1; w < segment_warps; ++w) {
    const Values<V> part = load<V>(sums + (w * warp + lane_of_thread()) * V);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
  }
  store(to, sum);
}

template <class T>
void segment_sum(const SegmentSum& op, const KernelContext& context) {
  const std::int64_t width = op.dy.dim(1), segments = op.offsets.elements() - 1;
  const Segments<T> all{
      op.dy.data<T>(), ints(op.order), ints(op.offsets),    ints(op.count), op.ids ? ints(op.ids) : nullptr,
      width,           segments,       op.out.data<float>()};
  each(context.stream, SummedSegments<T>{all}, segments * width, width);
  const std::int64_t rows = op.order.elements();
  if (rows <= long_segment || segments == 0 || width == 0) return;
  const int v = vector_of(width);
  const LaunchShape shape{.grid = {blocks_for(rows, long_segment), blocks_for(width, warp * v)},
                          .threads = warp * segment_warps,
                          .shared_bytes = static_cast<std::size_t>(warp * v * segment_warps) * sizeof(float)};
  if (v == 4)
    COMERA_LAUNCH(context.stream, shape, (long_segments_kernel<T, 4>), all);
  else
    COMERA_LAUNCH(context.stream, shape, (long_segments_kernel<T, 1>), all);
}

constexpr int table_threads = 256;
constexpr int tokens_at_once = 8;  // examined by a thread
constexpr int table_warps = table_threads / warp;

// Block (row, columns, part of the tokens): collects the tokens with that id, about a thousand at a time, and
// sums them in order.
template <class T, int V>
__global__ void __launch_bounds__(table_threads)
    table_gradient_kernel(const T* dy, const std::int32_t* ids, const std::int32_t* count,
                          std::int64_t tokens, std::int64_t width, float* partial, float* table) {
  auto* list = shared_array<int>(table_threads * tokens_at_once + 2 * table_warps);
  int* found = list + table_threads * tokens_at_once;  // found by each warp; twice, for alternating rounds
  const auto row = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t column = (std::int64_t{blockIdx.y} * table_threads + threadIdx.x) * V;
  const std::int64_t part = (tokens + gridDim.z - 1) / gridDim.z;
  const std::int64_t begin = blockIdx.z * part;
  const std::int64_t end = min(min(begin + part, tokens), std::int64_t{*count});
  Values<V> sum{};
  for (std::int64_t some = begin; some < end; some += table_threads * tokens_at_once) {
    const std::int64_t first = some + warp_of_thread() * warp * tokens_at_once + lane_of_thread();
    unsigned votes[tokens_at_once];
#pragma unroll
    for (int i = 0; i < tokens_at_once; ++i) {
      const std::int64_t token = first + i * warp;
      votes[i] = token < end && ids[token] == row ? 1 : 0;
    }
    int own = 0;
#pragma unroll
    for (int i = 0; i < tokens_at_once; ++i) {
      votes[i] = __ballot_sync(all_lanes, static_cast<int>(votes[i]));
      own += __popc(votes[i]);
    }
    if (lane_of_thread() == 0) found[warp_of_thread()] = own;
    __syncthreads();
    int place = 0, all = 0;
    for (int w = 0; w < table_warps; ++w) {
      if (w < warp_of_thread()) place += found[w];
      all += found[w];
    }
    found = found == list + table_threads * tokens_at_once ? found + table_warps : found - table_warps;
    if (all == 0) continue;
#pragma unroll
    for (int i = 0; i < tokens_at_once; ++i) {
      const unsigned lane_bit = 1u << lane_of_thread();
      if ((votes[i] & lane_bit) != 0)
        list[place + __popc(votes[i] & (lane_bit - 1))] = static_cast<int>(first + i * warp);
      place += __popc(votes[i]);
    }
    __syncthreads();
    if (column < width) add_rows<8>(sum, dy, width, column, 0, all, 1, [&](int p) { return list[p]; });
  }
  if (column >= width) return;
  if (gridDim.z > 1)
    return store(partial + (std::int64_t{blockIdx.z} * gridDim.x + row) * width + column, sum);
#pragma unroll
  for (int k = 0; k < V; ++k) table[row * width + column + k] += sum.at[k];
}

// The number of parts of the tokens: more for tables with few rows, so that every multiprocessor has work.
std::int64_t table_parts(const TableGradient& op) {
  constexpr std::int64_t most = 256, least_tokens = 64;
  const std::int64_t rows = std::max<std::int64_t>(op.dtable.dim(0), 1);
  return std::clamp<std::int64_t>(std::min(2 * most / rows, op.dy.dim(0) / least_tokens), 1, most);
}

std::size_t table_gradient_scratch(const TableGradient& op) {
  const std::int64_t parts = table_parts(op);
  return parts == 1 ? 0 : static_cast<std::size_t>(parts * op.dtable.elements()) * sizeof(float);
}

template <class T>
void table_gradient(const TableGradient& op, const KernelContext& context) {
  const std::int64_t rows = op.dtable.dim(0), width = op.dtable.dim(1), parts = table_parts(op);
  if (rows == 0 || width == 0) return;
  auto* partial = reinterpret_cast<float*>(context.scratch);
  auto* table = op.dtable.data<float>();
  const int v = vector_of(width);
  const LaunchShape shape{.grid = {rows, blocks_for(width, table_threads * v), parts},
                          .threads = table_threads,
                          .shared_bytes = (table_threads * tokens_at_once + 2 * table_warps) * sizeof(int)};
  if (v == 4)
    COMERA_LAUNCH(context.stream, shape, (table_gradient_kernel<T, 4>), op.dy.data<T>(), ints(op.ids),
                  ints(op.count), op.dy.dim(0), width, partial, table);
  else
    COMERA_LAUNCH(context.stream, shape, (table_gradient_kernel<T, 1>), op.dy.data<T>(), ints(op.ids),
                  ints(op.count), op.dy.dim(0), width, partial, table);
  if (parts > 1)
    add_part_sums(context.stream, {{.parts = partial,
                                    .apart = rows * width,
                                    .to = table,
                                    .count = static_cast<int>(parts),
                                    .columns = static_cast<int>(rows * width)}});
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
