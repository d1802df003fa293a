// Rows that are looked up, and their gradients: sums in a fixed order, without atomics.

#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gather.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/sequence.h"

namespace comera::COMERA_CUDA {

namespace {

const std::int32_t* ints(const Tensor& tensor) { return tensor.data<std::int32_t>(); }

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

// i counts in rows x heads x halves of heads.
template <class T>
struct TurnedHeads {
  T* x;
  const std::int32_t* position_ids;
  const float* turns;
  std::int64_t heads, half;
  float direction;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t column = i % half, head = i / half;  // head: of all rows
    const float* cosines = turns + position_ids[head / heads] * 2 * half + column;
    T *first = x + head * 2 * half + column, *second = first + half;
    const Values<V> a = load<V>(first), b = load<V>(second), cosine = load<V>(cosines),
                    sine = load<V>(cosines + half);
    Values<V> turned_a, turned_b;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      turned_a.at[k] = a.at[k] * cosine.at[k] - b.at[k] * sine.at[k] * direction;
      turned_b.at[k] = b.at[k] * cosine.at[k] + a.at[k] * sine.at[k] * direction;
    }
    store(first, turned_a);
    store(second, turned_b);
  }
};

template <class T>
void rotary(const Rotary& op, const KernelContext& context) {
  const std::int64_t half = op.size() / 2;
  each(context.stream,
       TurnedHeads<T>{op.x.data<T>(), ints(op.position_ids), op.turns.data<float>(), op.x.dim(1) / op.size(),
                      half, op.backward ? -1.F : 1.F},
       op.x.elements() / 2, half);
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
struct GatheredRows {
  const T* x;
  const std::int32_t *indices, *count;
  std::int64_t width;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width;
    Values<V> value{};
    if (row < *count) value = load<V>(x + indices[row] * width + i % width);
    store(y + i, value);
  }
};

template <class T>
void gather_rows(const GatherRows& op, const KernelContext& context) {
  each(context.stream,
       GatheredRows<T>{op.x.data<T>(), ints(op.indices), ints(op.count), op.y.dim(1), op.y.data<T>()},
       op.y.elements(), op.y.dim(1));
}

template <class T>
struct ScatteredRows {
  const T* dy;
  const std::int32_t *indices, *count;
  std::int64_t width;
  T* dx;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width;
    if (row < *count) store(dx + indices[row] * width + i % width, load<V>(dy + i));
  }
};

template <class T>
void scatter_rows(const ScatterRows& op, const KernelContext& context) {
  COMERA_CUDA_CALL(cudaMemsetAsync(op.dx.raw(), 0, op.dx.bytes(), stream_of(context.stream)));
  each(context.stream,
       ScatteredRows<T>{op.dy.data<T>(), ints(op.indices), ints(op.count), op.dy.dim(1), op.dx.data<T>()},
       op.dy.elements(), op.dy.dim(1));
}

// ---- Sequences

template <class T>
struct MeanOfSequences {
  const T* x;
  const std::int32_t *offsets, *count;
  std::int64_t width;
  T* y;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t s = i / width, column = i % width;
    Values<V> sum{};
    if (s < *count && offsets[s + 1] > offsets[s]) {
      for (std::int32_t t = offsets[s]; t < offsets[s + 1]; ++t) {
        const Values<V> value = load<V>(x + t * width + column);
#pragma unroll
        for (int k = 0; k < V; ++k) sum.at[k] += value.at[k];
      }
      const float length = static_cast<float>(offsets[s + 1] - offsets[s]);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.at[k] /= length;
    }
    store(y + i, sum);
  }
};

template <class T>
void sequence_mean(const SequenceMean& op, const KernelContext& context) {
  each(context.stream,
       MeanOfSequences<T>{op.x.data<T>(), ints(op.offsets), ints(op.count), op.y.dim(1), op.y.data<T>()},
       op.y.elements(), op.y.dim(1));
}

template <class T>
struct MeanOfSequencesGradient {
  const T* dy;
  const std::int32_t *offsets, *count;
  std::int64_t sequences, width;
  T* dx;

  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t t = i / width;
    // The last sequence that begins at or before t.
    std::int64_t first = 0, last = sequences;
    while (last - first > 1) {
      const std::int64_t middle = (first + last) / 2;
      if (offsets[middle] <= t)
        first = middle;
      else
        last = middle;
    }
    Values<V> value{};
    if (first < *count && t < offsets[first + 1]) {
      value = load<V>(dy + first * width + i % width);
      const float length = static_cast<float>(offsets[first + 1] - offsets[first]);
#pragma unroll
      for (int k = 0; k < V; ++k) value.at[k] /= length;
    }
    store(dx + i, value);
  }
};

template <class T>
void sequence_mean_backward(const SequenceMeanBackward& op, const KernelContext& context) {
  each(context.stream,
       MeanOfSequencesGradient<T>{op.dy.data<T>(), ints(op.offsets), ints(op.count), op.dy.dim(0),
                                  op.dx.dim(1), op.dx.data<T>()},
       op.dx.elements(), op.dx.dim(1));
}

template <class T>
struct PairFeatures {
  const T* x;
  const std::int32_t* count;
  std::int64_t width;
  T* y;

  // i counts in pairs x width.
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t e = i / width, column = i % width;
    Values<V> u{}, v{}, distance{}, product{};
    if (e < *count) {
      u = load<V>(x + 2 * e * width + column);
      v = load<V>(x + (2 * e + 1) * width + column);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        distance.at[k] = fabsf(u.at[k] - v.at[k]);
        product.at[k] = u.at[k] * v.at[k];
      }
    }
    T* to = y + 4 * e * width + column;
    store(to, u);
    store(to + width, v);
    store(to + 2 * width, distance);
    store(to + 3 * width, product);
  }
};

template <class T>
void pair_features_forward(const PairFeaturesForward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1);
  each(context.stream, PairFeatures<T>{op.x.data<T>(), ints(op.count), width, op.y.data<T>()},
       op.y.dim(0) * width, width);
}

template <class T>
struct PairFeaturesGradient {
  const T* x;
  const std::int32_t* count;
  const T* dy;
  std::int64_t width;
  T* dx;

  // i counts in rows x width: u of a pair, then v.
  template <int V>
  __device__ void run(std::int64_t i) const {
    const std::int64_t row = i / width, column = i % width, e = row / 2;
    Values<V> gradient{};
    if (e < *count) {
      const float sign_of_own = row % 2 == 0 ? 1.F : -1.F;
      const Values<V> own = load<V>(x + row * width + column),
                      other = load<V>(x + (row ^ 1) * width + column);
      const T* from = dy + 4 * e * width + column;
      const Values<V> direct = load<V>(from + (row % 2) * width), distance = load<V>(from + 2 * width);
      const Values<V> product = load<V>(from + 3 * width);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float difference = sign_of_own * (own.at[k] - other.at[k]);  // u - v
        const float sign = difference > 0 ? 1.F : difference < 0 ? -1.F : 0.F;
        gradient.at[k] = direct.at[k] + sign_of_own * sign * distance.at[k] + other.at[k] * product.at[k];
      }
    }
    store(dx + i, gradient);
  }
};

template <class T>
void pair_features_backward(const PairFeaturesBackward& op, const KernelContext& context) {
  const std::int64_t width = op.x.dim(1);
  each(context.stream,
       PairFeaturesGradient<T>{op.x.data<T>(), ints(op.count), op.dy.data<T>(), width, op.dx.data<T>()},
       op.x.elements(), width);
}

constexpr int error_threads = 256;

template <class T>
__global__ void __launch_bounds__(error_threads)
    squared_error_kernel(T* predictions, const float* scores, const std::int32_t* count,
                         std::int64_t sequences, bool gradient, StepResults* results) {
  auto* scratch = shared_array<double>(error_threads / warp);
  double loss = 0;
  for (std::int64_t s = threadIdx.x; s < sequences; s += error_threads) {
    const float error = s < *count ? static_cast<float>(predictions[s]) - scores[s] : 0.F;
    loss += static_cast<double>(error) * error;
    if (gradient) predictions[s] = static_cast<T>(2 * error);
  }
  loss = block_sum(loss, scratch);
  if (threadIdx.x > 0) return;
  results->loss_sum += loss;
  results->target_count += *count;
}

template <class T>
void squared_error(const SquaredError& op, const KernelContext& context) {
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.threads = error_threads, .shared_bytes = error_threads / warp * sizeof(double)}),
      (squared_error_kernel<T>), op.predictions.data<T>(), op.scores.data<float>(), ints(op.count),
      op.predictions.elements(), op.gradient, static_cast<StepResults*>(op.results.raw()));
}

}  // namespace

namespace {

template <class T>
void register_of(Backend& backend) {
  backend.set<EmbeddingSum>(dtype_of<T>, embedding_sum<T>);
  backend.set<Rotary>(dtype_of<T>, rotary<T>);
  backend.set<SegmentSum>(dtype_of<T>, segment_sum<T>);
  backend.set<TableGradient>(dtype_of<T>, table_gradient<T>, table_gradient_scratch);
  backend.set<GatherRows>(dtype_of<T>, gather_rows<T>);
  backend.set<ScatterRows>(dtype_of<T>, scatter_rows<T>);
  backend.set<SequenceMean>(dtype_of<T>, sequence_mean<T>);
  backend.set<SequenceMeanBackward>(dtype_of<T>, sequence_mean_backward<T>);
  backend.set<PairFeaturesForward>(dtype_of<T>, pair_features_forward<T>);
  backend.set<PairFeaturesBackward>(dtype_of<T>, pair_features_backward<T>);
  backend.set<SquaredError>(dtype_of<T>, squared_error<T>);
}

}  // namespace

void register_rows(Backend& backend) {
  register_of<float>(backend);
  register_of<bfloat16>(backend);
}

}  // namespace comera::COMERA_CUDA
