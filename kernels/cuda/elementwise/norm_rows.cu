// A thread handles a column of a row, or V neighbouring ones, or a few such chunks, and processes several
// rows at once: its part of a row stays in registers, and so do the sums over rows for its columns. A block
// handles as many rows in parallel as its threads allow.

#include "kernels/cuda/elementwise/norm_rows.h"

#include <algorithm>

#include "kernels/cuda/products/part_sums.h"
#include "kernels/cuda/reduce.h"

namespace comera::COMERA_CUDA {

namespace {

// Like dropout_word(), for four times four elements with stride `apart`, where lanes 4 i … 4 i + 3 of a warp
// have the words of a whole block of 16: each computes one of their blocks, and they exchange the words. All
// lanes of the warp must call.
__device__ __forceinline__ void dropout_words(const DropoutMask& mask, std::int64_t element,
                                              std::int64_t apart, std::uint32_t (&words)[4]) {
  const unsigned lane = threadIdx.x % 4;
  const std::int64_t own = element + lane * apart;
  const Philox4 block = dropout_bytes(*mask.key, mask.site, static_cast<std::uint32_t>(own / 16));
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = block.word[i];
    // A 4 x 4 transposition: first within halves of two lanes and words, then between the halves.
#pragma unroll
  for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
    for (int low = 0; low < 4; ++low) {
      if ((low & bit) != 0) continue;
      const bool upper = (lane & bit) != 0;
      const std::uint32_t got = __shfl_xor_sync(all_lanes, upper ? words[low] : words[low + bit], bit);
      words[low] = upper ? got : words[low];
      words[low + bit] = upper ? words[low + bit] : got;
    }
}

constexpr int most_threads = 384;  // of a block

// Chunks per thread: one of four columns, or four of them in wide rows, or several of one column if the width
// is not divisible.
constexpr int few_chunks = 1, many_chunks = 4, narrow_chunks = 14;
__host__ __device__ constexpr int rows_at_once(int chunks) { return chunks < 4 ? 4 / chunks : 1; }

struct RowLayout {
  int v, chunks;
  int threads, groups;  // threads per row, in whole warps; and rows in parallel per block
  int rows_at_once;     // per group
  std::int64_t block_rows() const { return std::int64_t{groups} * rows_at_once; }
};

RowLayout layout_of(std::int64_t width) {
  RowLayout layout{};
  layout.v = width % 16 == 0 ? 4 : 1;  // in fours: four threads have the elements of one Philox call
  layout.chunks = layout.v == 1 ? narrow_chunks : width > 4 * most_threads ? many_chunks : few_chunks;
  const std::int64_t most = std::int64_t{most_threads} * layout.v * layout.chunks;
  COMERA_CHECK(width <= most, "norms of rows of {} numbers: a GPU's kernel has at most {}", width, most);
  layout.threads = static_cast<int>(blocks_for(width, std::int64_t{warp} * layout.v * layout.chunks)) * warp;
  layout.groups = most_threads / layout.threads;
  layout.rows_at_once = rows_at_once(layout.chunks);
  return layout;
}

// A thread's work: its first column, the stride of its chunks, and the index of its row among the block's
// parallel rows.
template <int V>
struct Place {
  int first, step, group, warps;

  // Whether a chunk of an existing row is within it; a thread without a first chunk has no rows.
  template <int C>
  __device__ __forceinline__ bool has(int chunk, int width) const {
    return C == 1 || first + chunk * step < width;
  }

  __device__ explicit Place(int threads)
      : first(static_cast<int>(threadIdx.x) % threads * V),
        step(threads * V),
        group(static_cast<int>(threadIdx.x) / threads),
        warps(threads / warp) {}
};

// Each of N sums over the threads of a row, in every one of them. All threads of the block must call.
// `scratch` has N floats per warp, and may be reused after another call with other scratch.
template <int N, int V>
__device__ __forceinline__ void row_sums(const Place<V>& place, float (&values)[N], float* scratch) {
  const float sum = warp_sums(values);
  constexpr int lanes = warp / N;
  if (lane_of_thread() % lanes == 0) scratch[warp_of_thread() * N + lane_of_thread() / lanes] = sum;
  __syncthreads();
  scratch += place.group * place.warps * N;
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = 0;
#pragma unroll 2
  for (int w = 0; w < place.warps; ++w) {
    const Values<N> part = load<N>(scratch + w * N);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += part.at[i];
  }
}

// The dropout of a thread's elements: with four columns per chunk, all words are computed at once.
template <int V, int C>
struct Kept {
  const DropoutMask& mask;
  std::uint32_t words[4];

  // `begin`: the first of all elements.
  __device__ Kept(const DropoutMask& dropout, const Place<V>& place, int width, std::int64_t begin)
      : mask(dropout), words{} {
    if (V == 4 && mask.key != nullptr) dropout_words(mask, begin, C == 1 ? width : place.step, words);
  }
  // For a chunk that begins at this element.
  __device__ __forceinline__ Values<V> factors(int item, std::int64_t element) const {
    Values<V> factors;
#pragma unroll
    for (int i = 0; i < V; ++i) factors.at[i] = 1;
    if (mask.key == nullptr) return factors;
    const std::uint32_t word = V == 4 ? words[item % 4] : dropout_word<V>(mask, element);
#pragma unroll
    for (int i = 0; i < V; ++i) factors.at[i] = dropout_factor(mask, word, i);
    return factors;
  }
};

template <class T, int V, int C>
__global__ void __launch_bounds__(most_threads, C > 1            ? 1
                                                : sizeof(T) == 2 ? 3
                                                                 : 2)
    norm_forward(NormForward<T> op, int row_threads) {
  constexpr int rows = rows_at_once(C);
  auto* scratch = shared_array<float>(2 * blockDim.x / warp * rows);
  const Place<V> place(row_threads);
  const std::int64_t row = (std::int64_t{blockIdx.x} * (blockDim.x / row_threads) + place.group) * rows;
  const std::int64_t begin = row * op.width + place.first;
  const int width = static_cast<int>(op.width);
  // Number of this thread's rows, possibly 0.
  const int some = place.first < width ? static_cast<int>(min(op.rows - row, std::int64_t{rows})) : 0;
  const auto is_there = [&](int r, int c) { return r < some && place.template has<C>(c, width); };

  Waiting<T, V> x[rows * C];
#pragma unroll
  for (int item = 0; item < rows * C; ++item)
    if (is_there(item / C, item % C))
      x[item] = load_waiting<V>(op.x + begin + (item / C * width + item % C * place.step));
    else
      x[item] = {};
  if (op.residual != nullptr) {
    Waiting<T, V> residual[rows * C];
#pragma unroll
    for (int item = 0; item < rows * C; ++item)
      if (is_there(item / C, item % C))
        residual[item] = load_waiting<V>(op.residual + begin + (item / C * width + item % C * place.step));
    const Kept<V, C> kept(op.dropout, place, width, begin);
#pragma unroll
    for (int c = 0; c < C; ++c) {
      if (place.first + c * place.step >= width) continue;
      const Values<V> bias = load<V>(op.bias + place.first + c * place.step);
      std::int64_t at = begin + c * place.step;
#pragma unroll
      for (int r = 0; r < rows; ++r, at += width) {
        if (!is_there(r, c)) continue;
        Values<V> sum = values_of(x[r * C + c]);
        const Values<V> other = values_of(residual[r * C + c]);
        const Values<V> factor = kept.factors(r * C + c, at);
#pragma unroll
        for (int i = 0; i < V; ++i) sum.at[i] = other.at[i] + (sum.at[i] + bias.at[i]) * factor.at[i];
        x[r * C + c] = waiting_of<T>(sum);  // the norm uses the stored (rounded) value
        store_waiting(op.sum + at, x[r * C + c]);
      }
    }
  }
  if (op.gamma == nullptr) return;

  const float share = 1.F / static_cast<float>(width);
  float mean[rows] = {}, rstd[rows] = {};
#pragma unroll
  for (int item = 0; item < rows * C; ++item) {
    const Values<V> value = values_of(x[item]);
#pragma unroll
    for (int i = 0; i < V; ++i) mean[item / C] += value.at[i];
  }
  row_sums(place, mean, scratch);
#pragma unroll
  for (int item = 0; item < rows * C; ++item) {
    if (item % C == 0) mean[item / C] *= share;
    if (!is_there(item / C, item % C)) continue;
    const Values<V> value = values_of(x[item]);
#pragma unroll
    for (int i = 0; i < V; ++i)
      rstd[item / C] += (value.at[i] - mean[item / C]) * (value.at[i] - mean[item / C]);
  }
  row_sums(place, rstd, scratch + blockDim.x / warp * rows);
#pragma unroll
  for (int r = 0; r < rows; ++r) rstd[r] = rsqrtf(rstd[r] * share + op.eps);
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int column = place.first + c * place.step;
    if (column >= width) continue;
    const Values<V> gamma = load<V>(op.gamma + column), beta = load<V>(op.beta + column);
    std::int64_t at = begin + c * place.step;
#pragma unroll
    for (int r = 0; r < rows; ++r, at += width) {
      if (!is_there(r, c)) continue;
      Values<V> value = values_of(x[r * C + c]);
#pragma unroll
      for (int i = 0; i < V; ++i)
        value.at[i] = gamma.at[i] * ((value.at[i] - mean[r]) * rstd[r]) + beta.at[i];
      store_waiting(op.y + at, waiting_of<T>(value));
    }
  }
  if (place.first == 0)
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (r < some) op.mean[row + r] = mean[r], op.rstd[row + r] = rstd[r];
}

// Shared memory: two halves for row_sums(), and at the end the sums over the rows of each group.
__host__ __device__ constexpr std::size_t backward_floats(std::int64_t width, int groups, int warps, int sums,
                                                          int rows) {
  const std::int64_t of_rows = std::int64_t{2} * warps * 2 * rows, of_columns = groups * sums * width;
  return static_cast<std::size_t>(of_rows > of_columns ? of_rows : of_columns);
}

// There are about two blocks per multiprocessor.
template <class T, int V, int C>
__global__ void __launch_bounds__(most_threads, C == 1 && sizeof(T) == 2 ? 2 : 1)
    norm_backward(NormBackward<T> op, int row_threads) {
  constexpr int rows = rows_at_once(C);
  const int warps = static_cast<int>(blockDim.x) / warp, groups = static_cast<int>(blockDim.x) / row_threads;
  auto* shared = shared_array<float>(backward_floats(op.width, groups, warps, op.sums, rows));
  const Place<V> place(row_threads);
  const bool norm = op.gamma != nullptr;
  const int width = static_cast<int>(op.width);
  const float share = 1.F / static_cast<float>(width);
  Values<V> dgamma[C] = {}, dbeta[C] = {}, dbias[C] = {};
  int turn = 0;  // alternates between the halves of the scratch
  const int all = static_cast<int>(op.rows), at_once = groups * rows;
  for (int some = static_cast<int>(blockIdx.x) * at_once; some < all;
       some += static_cast<int>(gridDim.x) * at_once, turn = 1 - turn) {
    const int row = some + place.group * rows;
    const int there = place.first < width ? min(all - row, rows) : 0;  // this thread's; may be 0
    const std::int64_t begin = std::int64_t{row} * width + place.first;
    const auto is_there = [&](int r, int c) { return r < there && place.template has<C>(c, width); };
    const T *dy_here = op.dy + begin, *x_here = norm ? op.x + begin : nullptr;
    Waiting<T, V> dy[rows * C], x[rows * C];
    float mean[rows] = {}, rstd[rows] = {};
#pragma unroll
    for (int item = 0; item < rows * C; ++item) {
      const int at = item / C * width + item % C * place.step;
      if (is_there(item / C, item % C))
        dy[item] = load_waiting<V>(dy_here + at);
      else
        dy[item] = {};
      if (is_there(item / C, item % C) && norm)
        x[item] = load_waiting<V>(x_here + at);
      else
        x[item] = {};
      if (item % C == 0 && norm && item / C < there)
        mean[item / C] = op.mean[row + item / C], rstd[item / C] = op.rstd[row + item / C];
    }
    T *dsum_here = op.dsum + begin, *dx_here = op.dx != nullptr ? op.dx + begin : nullptr;
    const Kept<V, C> kept(op.dropout, place, width, begin);

    float sums[2 * rows] = {};  // of g and of g times the normalised value, g = gamma dy
    if (norm) {
#pragma unroll
      for (int c = 0; c < C; ++c) {
        if (place.first + c * place.step >= width) continue;
        const Values<V> gamma = load<V>(op.gamma + place.first + c * place.step);
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          const Values<V> gradient = values_of(dy[r * C + c]), value = values_of(x[r * C + c]);
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const float normal = (value.at[i] - mean[r]) * rstd[r], g = gamma.at[i] * gradient.at[i];
            sums[r] += g;
            sums[rows + r] += g * normal;
            dgamma[c].at[i] += gradient.at[i] * normal;
            dbeta[c].at[i] += gradient.at[i];
          }
        }
      }
      row_sums(place, sums, shared + turn * warps * 2 * rows);
#pragma unroll
      for (int i = 0; i < 2 * rows; ++i) sums[i] *= share;
    }
#pragma unroll
    for (int c = 0; c < C; ++c) {
      if (place.first + c * place.step >= width) continue;
      Values<V> gamma{};
      if (norm) gamma = load<V>(op.gamma + place.first + c * place.step);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        if (!is_there(r, c)) continue;
        const int at = r * width + c * place.step;
        Values<V> dsum = values_of(dy[r * C + c]);
        if (norm) {
          const Values<V> value = values_of(x[r * C + c]);
#pragma unroll
          for (int i = 0; i < V; ++i) {
            const float normal = (value.at[i] - mean[r]) * rstd[r];
            dsum.at[i] = rstd[r] * (gamma.at[i] * dsum.at[i] - sums[r] - normal * sums[rows + r]);
          }
        }
        if (op.accumulate) {
          const Values<V> before = values_of(load_waiting<V>(dsum_here + at));
#pragma unroll
          for (int i = 0; i < V; ++i) dsum.at[i] += before.at[i];
        }
        store_waiting(dsum_here + at, waiting_of<T>(dsum));
        if (op.dx == nullptr) continue;
        const Values<V> factor = kept.factors(r * C + c, begin + at);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          dsum.at[i] *= factor.at[i];
          dbias[c].at[i] += dsum.at[i];
        }
        store_waiting(dx_here + at, waiting_of<T>(dsum));
      }
    }
  }

  // (groups, sums, width), in the memory of the row sums.
  __syncthreads();
  float* own = shared + place.group * op.sums * width + place.first;
#pragma unroll
  for (int c = 0; c < C; ++c) {
    if (place.first + c * place.step >= width) continue;
    float* to = own + c * place.step;
    if (norm) {
      store(to, dgamma[c]);
      store(to + width, dbeta[c]);
      to += 2 * width;
    }
    if (op.dx != nullptr) store(to, dbias[c]);
  }
  __syncthreads();
  float* partial = op.partial + std::int64_t{blockIdx.x} * op.sums * width;
  for (std::int64_t j = threadIdx.x; j < op.sums * width; j += blockDim.x) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += shared[g * op.sums * width + j];
    partial[j] = sum;
  }
}

std::int64_t backward_blocks(std::int64_t rows, const RowLayout& layout) {
  return std::min(blocks_for(rows, layout.block_rows()), LaterSums::most_parts);
}

// Whether sums are left for later; other widths are not worth a separate path there.
bool leaves(const LaterSums& later, std::int64_t width) { return later.sums != nullptr && width % 4 == 0; }

}  // namespace

template <class T>
void run_norm_forward(const NormForward<T>& op, const Stream& stream) {
  if (op.rows == 0) return;
  const RowLayout layout = layout_of(op.width);
  const int threads = layout.groups * layout.threads;
  const LaunchShape shape{
      .grid = {blocks_for(op.rows, layout.block_rows())},
      .threads = threads,
      .shared_bytes = static_cast<std::size_t>(2 * threads / warp * layout.rows_at_once) * sizeof(float)};
  if (layout.v == 1)
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 1, narrow_chunks>), op, layout.threads);
  else if (layout.chunks == many_chunks)
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 4, many_chunks>), op, layout.threads);
  else
    COMERA_LAUNCH(stream, shape, (norm_forward<T, 4, few_chunks>), op, layout.threads);
}

std::size_t norm_scratch(std::int64_t rows, std::int64_t width, int sums, const LaterSums& later) {
  if (rows == 0 || leaves(later, width)) return 0;
  return static_cast<std::size_t>(backward_blocks(rows, layout_of(width)) * width * sums) * sizeof(float);
}

template <class T>
void run_norm_backward(NormBackward<T> op, std::initializer_list<Tensor> sums, const LaterSums& later,
                       const KernelContext& context) {
  if (op.rows == 0) return;
  const bool leave = leaves(later, op.width);
  op.partial = leave ? later.parts.template data<float>() : reinterpret_cast<float*>(context.scratch);
  op.sums = static_cast<int>(sums.size());
  const RowLayout layout = layout_of(op.width);
  const int threads = layout.groups * layout.threads;
  const std::int64_t blocks = backward_blocks(op.rows, layout);
  const LaunchShape shape{
      .grid = {blocks},
      .threads = threads,
      .shared_bytes = sizeof(float) *
                      backward_floats(op.width, layout.groups, threads / warp, op.sums, layout.rows_at_once)};
  if (layout.v == 1)
    COMERA_LAUNCH(context.stream, shape, (norm_backward<T, 1, narrow_chunks>), op, layout.threads);
  else if (layout.chunks == many_chunks)
    COMERA_LAUNCH(context.stream, shape, (norm_backward<T, 4, many_chunks>), op, layout.threads);
  else
    COMERA_LAUNCH(context.stream, shape, (norm_backward<T, 4, few_chunks>), op, layout.threads);
  const std::int64_t apart = op.sums * op.width;
  std::vector<PartSums> now;
  std::int64_t at = 0;  // offset of a block's sums
  for (const Tensor& sum : sums) {
    if (leave)
      later.sums->sums.push_back({.parts = later.parts.from(at), .count = blocks, .apart = apart, .to = sum});
    else
      now.push_back({.parts = op.partial + at,
                     .apart = apart,
                     .to = sum.data<float>(),
                     .count = static_cast<int>(blocks),
                     .columns = static_cast<int>(op.width)});
    at += op.width;
  }
  if (!leave) add_part_sums(context.stream, now);
}

#define COMERA_FOR_TYPE(T)                                                                          \
  template void run_norm_forward(const NormForward<T>&, const Stream&);                             \
  template void run_norm_backward(NormBackward<T>, std::initializer_list<Tensor>, const LaterSums&, \
                                  const KernelContext&);
COMERA_FOR_TYPE(float)
COMERA_FOR_TYPE(bfloat16)
#undef COMERA_FOR_TYPE

}  // namespace comera::COMERA_CUDA
