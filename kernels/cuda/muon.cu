// Muon over all matrices at once: each launch does one step of the iteration for all of them, with the
// matrices on the second axis of the grid and tiles on the first.

#include <utility>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/ops/muon.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int tile = 32;
constexpr int tile_rows = threads / tile;       // a thread computes every so many rows of a column
constexpr int tile_outputs = tile / tile_rows;  // so many numbers
constexpr int padded = tile + 1;                // columns of different rows lie in different banks
constexpr int pieces = 16;                      // blocks for sums over a matrix
constexpr std::size_t tile_bytes = 2 * tile * padded * sizeof(float);

struct MuonMemory {
  float *parameters, *momentum;
  const float* gradients;
  const MuonMatrix* matrices;
  const StepInputs* inputs;
  const StepResults* results;
  float beta, rest, weight_decay;
  double* x_squares;                          // (matrices, pieces)
  float* x;                                   // of all matrices
  float *gram, *polynomial, *product, *q[2];  // squares of all matrices
};

__device__ __forceinline__ int smaller_side(const MuonMatrix& m) {
  return m.rows < m.columns ? m.rows : m.columns;
}
__device__ __forceinline__ int tiles_of(int length) { return (length + tile - 1) / tile; }

// In every thread.
__device__ __forceinline__ double sum_of(const double* values, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}

// A matrix in memory: its entries are read times `scale`.
struct View {
  const float* at;
  std::int64_t row, column;  // from one to the next
  float scale = 1;

  __device__ __forceinline__ float operator()(int i, int j) const { return at[i * row + j * column] * scale; }
};
__device__ __forceinline__ View packed(const float* at, int columns) { return {at, columns, 1}; }

// The block's tile of A B, rows x depth times depth x columns: store(i, j, value) for each number within.
// All threads of the block must call. No tile: nothing.
template <class Store>
__device__ __forceinline__ void multiply_tile(int rows, int columns, int depth, const View& a, const View& b,
                                              const Store& store) {
  const int across = tiles_of(columns), index = static_cast<int>(blockIdx.x);
  if (index >= across * tiles_of(rows)) return;
  auto* left = shared_array<float>(2 * tile * padded);
  float* right = left + tile * padded;
  const int row = index / across * tile, column = index % across * tile;
  const int x = static_cast<int>(threadIdx.x) % tile, y = static_cast<int>(threadIdx.x) / tile;
  float sums[tile_outputs] = {};
  for (int k = 0; k < depth; k += tile) {
    for (int i = y; i < tile; i += tile_rows) {
      left[i * padded + x] = row + i < rows && k + x < depth ? a(row + i, k + x) : 0;
      right[i * padded + x] = k + i < depth && column + x < columns ? b(k + i, column + x) : 0;
    }
    __syncthreads();
    for (int l = 0; l < tile; ++l)
#pragma unroll
      for (int o = 0; o < tile_outputs; ++o)
        sums[o] += left[(y + o * tile_rows) * padded + l] * right[l * padded + x];
    __syncthreads();
  }
#pragma unroll
  for (int o = 0; o < tile_outputs; ++o) {
    const int i = row + y + o * tile_rows, j = column + x;
    if (i < rows && j < columns) store(i, j, sums[o]);
  }
}

// The momentum, X, and sums of X's squares.
__global__ void __launch_bounds__(threads) muon_momentum(MuonMemory op) {
  auto* scratch = shared_array<double>(threads / warp);
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const std::int64_t count = std::int64_t{matrix.rows} * matrix.columns;
  const float scale = static_cast<float>(op.results->gradient_scale) * op.rest;
  double x_sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += pieces * threads) {
    const std::int64_t at = matrix.offset + i;
    const float g = op.gradients[at] * scale;
    const float m = op.beta * op.momentum[at] + g;
    const float x = op.beta * m + g;
    op.momentum[at] = m;
    op.x[matrix.elements_before + i] = x;
    x_sum += static_cast<double>(x) * x;
  }
  x_sum = block_sum(x_sum, scratch);
  if (threadIdx.x == 0) op.x_squares[blockIdx.y * pieces + blockIdx.x] = x_sum;
}

// 1 / ‖X‖, or 0 where X is.
__device__ __forceinline__ float inverse_norm(const MuonMemory& op) {
  const double norm = sqrt(sum_of(op.x_squares + blockIdx.y * pieces, pieces));
  return norm < muon_least_norm ? 0 : static_cast<float>(1 / norm);
}

// G = X Xᵀ or Xᵀ X, the smaller one, of X over its norm; Q = 1.
__global__ void __launch_bounds__(threads) muon_gram(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const bool wide = matrix.rows <= matrix.columns;
  const int side = smaller_side(matrix), depth = wide ? matrix.columns : matrix.rows,
            columns = matrix.columns;
  const float* x = op.x + matrix.elements_before;
  const View along{x, wide ? columns : 1, wide ? 1 : columns, inverse_norm(op)};
  const View across{x, along.column, along.row, along.scale};
  float *gram = op.gram + matrix.squares_before, *q = op.q[0] + matrix.squares_before;
  multiply_tile(side, side, depth, along, across, [&](int i, int j, float value) {
    gram[i * side + j] = value;
    q[i * side + j] = i == j ? 1 : 0;
  });
}

// P = a + b G + c G².
__global__ void __launch_bounds__(threads) muon_polynomial(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float* gram = op.gram + matrix.squares_before;
  float* polynomial = op.polynomial + matrix.squares_before;
  multiply_tile(side, side, side, packed(gram, side), packed(gram, side), [&](int i, int j, float value) {
    polynomial[i * side + j] = (i == j ? static_cast<float>(muon_a) : 0) +
                               static_cast<float>(muon_b) * gram[i * side + j] +
                               static_cast<float>(muon_c) * value;
  });
}

// Q' = P Q from one place to the next, and on the third axis of the grid H = P G.
__global__ void __launch_bounds__(threads) muon_step(MuonMemory op, const float* from, float* next) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float* polynomial = op.polynomial + matrix.squares_before;
  const float* right = (blockIdx.z == 0 ? from : op.gram) + matrix.squares_before;
  float* to = (blockIdx.z == 0 ? next : op.product) + matrix.squares_before;
  multiply_tile(side, side, side, packed(polynomial, side), packed(right, side),
                [&](int i, int j, float value) { to[i * side + j] = value; });
}

// G' = H P.
__global__ void __launch_bounds__(threads) muon_next_gram(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float *product = op.product + matrix.squares_before,
              *polynomial = op.polynomial + matrix.squares_before;
  float* gram = op.gram + matrix.squares_before;
  multiply_tile(side, side, side, packed(product, side), packed(polynomial, side),
                [&](int i, int j, float value) { gram[i * side + j] = value; });
}

// The update with U = Q X or X Q, of X over its norm.
__global__ void __launch_bounds__(threads) muon_update(MuonMemory op, const float* from) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int columns = matrix.columns, side = smaller_side(matrix);
  const float *x = op.x + matrix.elements_before, *q = from + matrix.squares_before;
  const float inverse = inverse_norm(op);
  const bool wide = matrix.rows <= columns;
  const View left{wide ? q : x, side, 1, wide ? 1 : inverse};  // Q's rows, or X's if that is tall
  const View right{wide ? x : q, columns, 1, wide ? inverse : 1};
  float* parameters = op.parameters + matrix.offset;
  const float rate = static_cast<float>(op.inputs->learning_rate[matrix.group]);
  const float decay = matrix.decays != 0 ? op.weight_decay : 0;
  multiply_tile(matrix.rows, columns, side, left, right, [&](int i, int j, float value) {
    float& p = parameters[std::int64_t{i} * columns + j];
    p -= rate * (value + decay * p);
  });
}

std::int64_t most_tiles(std::int64_t rows, std::int64_t columns) {
  return blocks_for(rows, tile) * blocks_for(columns, tile);
}

std::size_t muon_scratch(const Muon& op) {
  return static_cast<std::size_t>(op.sizes.count) * pieces * sizeof(double) +
         static_cast<std::size_t>(op.sizes.elements + 5 * op.sizes.squares) * sizeof(float);
}

MuonMemory memory_of(const Muon& op, std::byte* scratch) {
  MuonMemory memory{};
  memory.x_squares = reinterpret_cast<double*>(scratch);
  auto* floats = reinterpret_cast<float*>(memory.x_squares + op.sizes.count * pieces);
  const auto take = [&](std::int64_t count) { return std::exchange(floats, floats + count); };
  memory.x = take(op.sizes.elements);
  for (float** square : {&memory.gram, &memory.polynomial, &memory.product, &memory.q[0], &memory.q[1]})
    *square = take(op.sizes.squares);
  memory.parameters = op.parameters.data<float>(), memory.momentum = op.momentum.data<float>();
  memory.gradients = op.gradients.data<float>();
  memory.matrices = static_cast<const MuonMatrix*>(op.matrices.raw());
  memory.inputs = static_cast<const StepInputs*>(op.step_inputs.raw());
  memory.results = static_cast<const StepResults*>(op.results.raw());
  memory.beta = static_cast<float>(op.beta), memory.rest = static_cast<float>(1 - op.beta);
  memory.weight_decay = static_cast<float>(op.weight_decay);
  return memory;
}

void muon(const Muon& op, const KernelContext& context) {
  const MuonSizes& sizes = op.sizes;
  if (sizes.count == 0) return;
  const MuonMemory memory = memory_of(op, context.scratch);
  const std::size_t sum_bytes = threads / warp * sizeof(double);
  const auto tiles = [&](std::int64_t columns, std::int64_t at_once) {
    return LaunchShape{.grid = {most_tiles(sizes.smaller, columns), sizes.count, at_once},
                       .threads = threads,
                       .shared_bytes = tile_bytes};
  };
  const LaunchShape flat{.grid = {pieces, sizes.count}, .threads = threads, .shared_bytes = sum_bytes};
  const LaunchShape square = tiles(sizes.smaller, 1);
  COMERA_LAUNCH(context.stream, flat, muon_momentum, memory);
  COMERA_LAUNCH(context.stream, square, muon_gram, memory);
  for (int step = 0; step < muon_iterations; ++step) {
    const bool last = step + 1 == muon_iterations;
    COMERA_LAUNCH(context.stream, square, muon_polynomial, memory);
    COMERA_LAUNCH(context.stream, tiles(sizes.smaller, last ? 1 : 2), muon_step, memory, memory.q[step % 2],
                  memory.q[(step + 1) % 2]);
    if (!last) COMERA_LAUNCH(context.stream, square, muon_next_gram, memory);
  }
  COMERA_LAUNCH(context.stream, tiles(sizes.larger, 1), muon_update, memory, memory.q[muon_iterations % 2]);
}

}  // namespace

void register_muon(Backend& backend, bool /*tf32*/) { backend.set<Muon>(DType::float32, muon, muon_scratch); }

}  // namespace comera::COMERA_CUDA
