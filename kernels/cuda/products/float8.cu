// 8-bit copies of operands with their scales; their products are in matrix_product.cu.

#include "kernels/cuda/elementwise/activations.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/products/float8.h"
#include "kernels/shared/float8_code.h"
#include "kernels/shared/step_values.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int tile = 64;  // rows and columns converted by a block

// Magnitudes are compared by their bits: infinity is larger than every number, NaN larger than everything.
__device__ __forceinline__ unsigned magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// The result is in every thread; as block_sum.
__device__ __forceinline__ unsigned block_max(unsigned value, unsigned* scratch) {
#pragma unroll
  for (int bits = warp / 2; bits > 0; bits /= 2) value = max(value, __shfl_xor_sync(all_lanes, value, bits));
  if (lane_of_thread() == 0) scratch[warp_of_thread()] = value;
  __syncthreads();
  unsigned most = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / warp; ++w) most = max(most, scratch[w]);
  __syncthreads();
  return most;
}
constexpr std::size_t max_scratch = threads / warp * sizeof(unsigned);

template <class T>
struct Source {
  const T* x;
  std::int64_t rows, columns, ld;

  __device__ __forceinline__ float at(std::int64_t row, std::int64_t column) const {
    return static_cast<float>(x[row * ld + column]);
  }
};

// The passes for the largest magnitude and for the codes both call this, so that values are computed twice
// rather than written to memory.
template <class T>
struct ActivatedSource : Source<T> {
  Activation activation;

  __device__ __forceinline__ float at(std::int64_t row, std::int64_t column) const {
    return activate(activation, Source<T>::at(row, column));
  }
};

template <class From>
__global__ void __launch_bounds__(threads) largest_magnitudes(From from, unsigned* partial) {
  auto* scratch = shared_array<unsigned>(threads / warp);
  unsigned most = 0;
  for (std::int64_t row = blockIdx.x; row < from.rows; row += gridDim.x)
    for (std::int64_t column = threadIdx.x; column < from.columns; column += threads)
      most = max(most, magnitude_bits(from.at(row, column)));
  most = block_max(most, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = most;
}

// One block. current: amax and the scale are of this tensor alone; otherwise amax covers several tensors.
__global__ void __launch_bounds__(threads)
    take_largest(const unsigned* partial, std::int64_t count, bool current, float largest, int margin,
                 Float8Scale* scale) {
  auto* scratch = shared_array<unsigned>(threads / warp);
  unsigned most = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += threads) most = max(most, partial[i]);
  most = block_max(most, scratch);
  if (threadIdx.x > 0) return;
  if (!current) most = max(most, __float_as_uint(scale->amax));
  const float amax = __uint_as_float(most);
  scale->amax = amax;
  if (current) set_float8_scale(amax, largest, margin, *scale);
}

// Each block converts a tile: straight, transposed, or both; partial: the largest magnitude of each tile, or
// null. Outputs have rows and columns in multiples of 16, so that four codes are written at once.
template <class F, class From>
__global__ void __launch_bounds__(threads)
    quantize_tiles(From from, const Float8Scale* scale, F* y, F* transposed, std::int64_t padded_rows,
                   std::int64_t padded_columns, unsigned* partial) {
  constexpr int ld = tile + 4;
  auto* codes = shared_array<F>(tile * ld + max_scratch);
  const float factor = scale->scale;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * tile,
                     first_column = std::int64_t{blockIdx.y} * tile;
  constexpr int fours = tile / 4, rows_at_once = threads / fours;
  const int four = static_cast<int>(threadIdx.x) % fours * 4;
  unsigned most = 0;
  for (int r = static_cast<int>(threadIdx.x) / fours; r < tile; r += rows_at_once) {
    const std::int64_t row = first_row + r, column = first_column + four;
    Packed<F, 4> packed;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float value = 0;
      if (row < from.rows && column + i < from.columns) value = from.at(row, column + i);
      most = max(most, magnitude_bits(value));
      packed.at[i] = float8_code<F>(value, factor);
      codes[r * ld + four + i] = packed.at[i];
    }
    if (y != nullptr && row < padded_rows && column < padded_columns)
      *reinterpret_cast<Packed<F, 4>*>(y + row * padded_columns + column) = packed;
  }
  if (partial != nullptr) {
    most = block_max(most, reinterpret_cast<unsigned*>(codes + tile * ld));
    if (threadIdx.x == 0) partial[std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = most;
  }
  if (transposed == nullptr) return;
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x) / fours; c < tile; c += rows_at_once) {
    const std::int64_t row = first_row + four, column = first_column + c;
    if (row >= padded_rows || column >= padded_columns) continue;
    Packed<F, 4> packed;
#pragma unroll
    for (int i = 0; i < 4; ++i) packed.at[i] = codes[(four + i) * ld + c];
    *reinterpret_cast<Packed<F, 4>*>(transposed + column * padded_rows + row) = packed;
  }
}

std::int64_t tiles(std::int64_t count) { return blocks_for(float8_padded(count), tile); }
constexpr std::int64_t most_rows_blocks = 1024;

std::size_t quantize_scratch(const Float8Quantize& op) {
  const std::int64_t partials =
      std::max(std::min(op.rows, most_rows_blocks), tiles(op.rows) * tiles(op.columns));
  return static_cast<std::size_t>(partials) * sizeof(unsigned);
}

template <class F, class From>
void quantize_from(const From& from, const Float8Quantize& op, const KernelContext& context) {
  auto* scale = static_cast<Float8Scale*>(op.scale.raw());
  auto* partial = reinterpret_cast<unsigned*>(context.scratch);
  using Scaling = Float8Quantize::Scaling;
  const auto take = [&](std::int64_t count) {
    COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = max_scratch}),
                  take_largest, static_cast<const unsigned*>(partial), count, op.scaling == Scaling::current,
                  F::largest, op.margin, scale);
  };
  if (op.rows == 0 || op.columns == 0) {
    if (op.scaling == Scaling::current) take(0);
    return;
  }
  if (op.scaling == Scaling::current) {
    const std::int64_t blocks = std::min(op.rows, most_rows_blocks);
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = {blocks}, .threads = threads, .shared_bytes = max_scratch}),
                  (largest_magnitudes<From>), from, partial);
    take(blocks);
  }
  const bool records = op.scaling == Scaling::delayed;
  const Shape3 grid{tiles(op.rows), tiles(op.columns)};
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = grid, .threads = threads, .shared_bytes = tile * (tile + 4) + max_scratch}),
      (quantize_tiles<F, From>), from, static_cast<const Float8Scale*>(scale),
      op.y ? op.y.data<F>() : nullptr, op.transposed ? op.transposed.data<F>() : nullptr,
      float8_padded(op.rows), float8_padded(op.columns), records ? partial : nullptr);
  if (records) take(grid.x * grid.y);
}

template <class F, class T>
void quantize_to(const Float8Quantize& op, const KernelContext& context) {
  const Source<T> from{op.x.data<T>(), op.rows, op.columns, op.leading()};
  if (op.activation == Activation::none)
    quantize_from<F>(from, op, context);
  else
    quantize_from<F>(ActivatedSource<T>{from, op.activation}, op, context);
}

template <class T>
void quantize(const Float8Quantize& op, const KernelContext& context) {
  if (op.type() == DType::float8_e4m3)
    quantize_to<float8_e4m3, T>(op, context);
  else
    quantize_to<float8_e5m2, T>(op, context);
}

template <class T, class F>
__global__ void __launch_bounds__(threads)
    expand_all(const F* x, const Float8Scale* scale, T* y, std::int64_t count) {
  const float inverse = scale->inverse;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step)
    y[i] = static_cast<T>(static_cast<float>(x[i]) * inverse);
}

template <class T>
void expand(const Float8Expand& op, const KernelContext& context) {
  const std::int64_t count = op.x.elements();
  if (count == 0) return;
  constexpr std::int64_t most_blocks = 8192;
  const LaunchShape shape{.grid = {std::min(blocks_for(count, threads), most_blocks)}, .threads = threads};
  const auto* scale = static_cast<const Float8Scale*>(op.scale.raw());
  if (op.x.dtype() == DType::float8_e4m3)
    COMERA_LAUNCH(context.stream, shape, (expand_all<T, float8_e4m3>), op.x.data<float8_e4m3>(), scale,
                  op.y.data<T>(), count);
  else
    COMERA_LAUNCH(context.stream, shape, (expand_all<T, float8_e5m2>), op.x.data<float8_e5m2>(), scale,
                  op.y.data<T>(), count);
}

// One block per tensor. All read the position before the second kernel advances it.
__global__ void __launch_bounds__(threads)
    next_scales_kernel(Float8Scale* scales, const float* largest, float* history, std::int64_t length,
                       const std::int64_t* position, const StepResults* results, int margin) {
  auto* scratch = shared_array<unsigned>(threads / warp);
  Float8Scale& scale = scales[blockIdx.x];
  float* own = history + blockIdx.x * length;
  const unsigned amax = __float_as_uint(scale.amax);
  __syncthreads();
  if (threadIdx.x == 0) scale.amax = 0;
  if (results->nonfinite != 0) return;
  const std::int64_t now = *position % length;
  unsigned most = 0;
  for (std::int64_t i = threadIdx.x; i < length; i += threads) {
    if (i == now && amax < 0x7f800000u) own[i] = __uint_as_float(amax);
    most = max(most, __float_as_uint(own[i]));
  }
  most = block_max(most, scratch);
  if (threadIdx.x == 0) set_float8_scale(__uint_as_float(most), largest[blockIdx.x], margin, scale);
}

__global__ void __launch_bounds__(warp) move_position(std::int64_t* position, const StepResults* results) {
  if (threadIdx.x == 0 && results->nonfinite == 0) ++*position;
}

void next_scales(const Float8NextScales& op, const KernelContext& context) {
  const std::int64_t count = op.history.dim(0), length = op.history.dim(1);
  const auto* results = static_cast<const StepResults*>(op.results.raw());
  auto* position = op.position.data<std::int64_t>();
  if (count > 0)
    COMERA_LAUNCH(
        context.stream, (LaunchShape{.grid = {count}, .threads = threads, .shared_bytes = max_scratch}),
        next_scales_kernel, static_cast<Float8Scale*>(op.scales.raw()), op.largest.data<float>(),
        op.history.data<float>(), length, static_cast<const std::int64_t*>(position), results, op.margin);
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = warp}), move_position, position, results);
}

}  // namespace

void register_float8(Backend& backend, bool /*tf32*/) {
  backend.set<Float8Quantize>(DType::float32, quantize<float>, quantize_scratch);
  backend.set<Float8Quantize>(DType::bfloat16, quantize<bfloat16>, quantize_scratch);
  backend.set<Float8Expand>(DType::float32, expand<float>);
  backend.set<Float8Expand>(DType::bfloat16, expand<bfloat16>);
  backend.set<Float8NextScales>(DType::float32, next_scales);
}

}  // namespace comera::COMERA_CUDA
