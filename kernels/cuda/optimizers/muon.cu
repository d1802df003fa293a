// Muon over all matrices at once: each launch does one step of the iteration for all of them, with the
// matrices on the second axis of the grid and tiles on the first. Products use tensor cores: for a dense
// model they are more arithmetic than a step of few tokens. All matrices of the iteration are polynomials of
// G, so that all its products are symmetric.

#include <utility>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/products/tensor_cores.h"
#include "kernels/ops/optimizers/muon.h"

namespace comera::COMERA_CUDA {

namespace {

using Math = SplitTF32;  // nearly float32: G's smallest eigenvalues grow by a to the fifth

constexpr int threads = 256;
constexpr int tile = 64;             // rows and columns of a block's tile
constexpr int deep = 32;             // length of the sums in shared memory at a time
constexpr int bands = tile / 16;     // of rows, one per warp
constexpr int warp_tiles = 4;        // tiles of 8 columns per warp
constexpr int left_row = deep + 8;   // avoids bank conflicts of fragments
constexpr int right_row = tile + 8;  // the same
constexpr int loads = tile * deep / threads;
constexpr int pieces = 16;  // blocks for sums over a matrix
constexpr std::size_t tile_bytes = (tile * left_row + deep * right_row) * sizeof(float);
static_assert(threads / warp == bands * (tile / (8 * warp_tiles)));

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

// The result is in every thread.
__device__ __forceinline__ double sum_of(const double* values, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i];
  return sum;
}

// A matrix in memory, read with the factor `scale`.
struct View {
  const float* at;
  int row, column;  // strides
  float scale = 1;
};
__device__ __forceinline__ View packed(const float* at, int columns) { return {at, columns, 1}; }

// A part of a matrix in shared memory, columns adjacent. Each thread reads its share into registers, so that
// the next part is loaded while this one is multiplied. Neighbouring threads read adjacent elements.
template <int rows, int columns, int stride>
class Part {
 public:
  __device__ __forceinline__ explicit Part(float* shared) : shared_(shared) {}

  // Starts at row i and column j of a matrix with the given size; 0 outside.
  __device__ __forceinline__ void read(const View& from, int i, int j, int all_rows, int all_columns) {
    const Share own = share_of(from);
    i += own.row, j += own.column;
    const float* at = from.at + i * from.row + j * from.column;
    const int step = own.row_step * from.row + own.column_step * from.column;
#pragma unroll
    for (int n = 0; n < loads; ++n)
      read_[n] = i + n * own.row_step < all_rows && j + n * own.column_step < all_columns
                     ? at[n * step] * from.scale
                     : 0;
  }
  __device__ __forceinline__ void store(const View& from) const {
    const Share own = share_of(from);
    float* to = shared_ + own.row * stride + own.column;
    const int step = own.row_step * stride + own.column_step;
#pragma unroll
    for (int n = 0; n < loads; ++n) to[n * step] = read_[n];
  }

 private:
  static_assert(rows * columns == loads * threads && threads % rows == 0 && threads % columns == 0);
  // A thread's first position, and the step to its next ones: a warp reads adjacent elements of the matrix's
  // memory.
  struct Share {
    int row, column, row_step, column_step;
  };
  static __device__ __forceinline__ Share share_of(const View& from) {
    const int thread = static_cast<int>(threadIdx.x);
    return from.column == 1 ? Share{thread / columns, thread % columns, threads / columns, 0}
                            : Share{thread % rows, thread / rows, 0, threads / rows};
  }
  float* shared_;
  float read_[loads];
};

struct Place {
  int row, column;
};
// The position of the block's tile among those of a matrix with this many columns.
__device__ __forceinline__ Place place_of_tile(int columns) {
  const int across = tiles_of(columns), index = static_cast<int>(blockIdx.x);
  return {index / across * tile, index % across * tile};
}

// A tile of A B, rows x depth times depth x columns: store(i, j, value) for each element within. All threads
// of the block must call. No tile: nothing.
template <class Store>
__device__ __forceinline__ void multiply_tile(Place place, int rows, int columns, int depth, const View& a,
                                              const View& b, const Store& store) {
  if (place.row >= rows) return;
  auto* left = shared_array<float>(tile * left_row + deep * right_row);
  float* right = left + tile * left_row;
  const int warp_index = static_cast<int>(threadIdx.x) / warp;
  const int row = warp_index % bands * 16, column = warp_index / bands * 8 * warp_tiles;
  Part<tile, deep, left_row> a_part(left);
  Part<deep, tile, right_row> b_part(right);
  a_part.read(a, place.row, 0, rows, depth), b_part.read(b, 0, place.column, depth, columns);
  TileC sums[warp_tiles] = {};
  for (int k = 0; k < depth; k += deep) {
    a_part.store(a), b_part.store(b);
    __syncthreads();
    a_part.read(a, place.row, k + deep, rows, depth);
    b_part.read(b, k + deep, place.column, depth, columns);
    // Unrolling would need more registers than are available for two blocks per multiprocessor.
#pragma unroll 1
    for (int l = 0; l < deep; l += Math::depth) {
      const auto fragment = load_a<Math>(left + row * left_row + l, left_row);
      each_b_of_columns<Math, warp_tiles>(
          right + l * right_row + column, right_row,
          [&](int n, const Math::B& other) { Math::add_product(sums[n], fragment, other); });
    }
    __syncthreads();
  }
#pragma unroll
  for (int n = 0; n < warp_tiles; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int i = place.row + row + fragment_row() + c / 2 * 8;
      const int j = place.column + column + 8 * n + fragment_column() + c % 2;
      if (i < rows && j < columns) store(i, j, sums[n].at[c]);
    }
}

// The same for a symmetric product: computes what lies above the diagonal, and stores it on both sides.
template <class Store>
__device__ __forceinline__ void multiply_symmetric(int side, int depth, const View& a, const View& b,
                                                   const Store& store) {
  const Place place = place_of_tile(side);
  if (place.column < place.row) return;
  multiply_tile(place, side, side, depth, a, b, [&](int i, int j, float value) {
    if (i > j) return;
    store(i, j, value);
    if (i < j) store(j, i, value);
  });
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

// 1 / ‖X‖, or 0 if X is 0.
__device__ __forceinline__ float inverse_norm(const MuonMemory& op) {
  const double norm = sqrt(sum_of(op.x_squares + blockIdx.y * pieces, pieces));
  return norm < muon_least_norm ? 0 : static_cast<float>(1 / norm);
}

// G = X Xᵀ or Xᵀ X, the smaller one, for X divided by its norm; Q = 1.
__global__ void __launch_bounds__(threads, 2) muon_gram(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const bool wide = matrix.rows <= matrix.columns;
  const int side = smaller_side(matrix), depth = wide ? matrix.columns : matrix.rows,
            columns = matrix.columns;
  const float* x = op.x + matrix.elements_before;
  const View along{x, wide ? columns : 1, wide ? 1 : columns, inverse_norm(op)};
  const View across{x, along.column, along.row, along.scale};
  float *gram = op.gram + matrix.squares_before, *q = op.q[0] + matrix.squares_before;
  multiply_symmetric(side, depth, along, across, [&](int i, int j, float value) {
    gram[i * side + j] = value;
    q[i * side + j] = i == j ? 1 : 0;
  });
}

// P = a + b G + c G².
__global__ void __launch_bounds__(threads, 2) muon_polynomial(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float* gram = op.gram + matrix.squares_before;
  float* polynomial = op.polynomial + matrix.squares_before;
  multiply_symmetric(side, side, packed(gram, side), packed(gram, side), [&](int i, int j, float value) {
    polynomial[i * side + j] = (i == j ? static_cast<float>(muon_a) : 0) +
                               static_cast<float>(muon_b) * gram[i * side + j] +
                               static_cast<float>(muon_c) * value;
  });
}

// Q' = P Q, alternating between two buffers, and on the third axis of the grid H = P G.
__global__ void __launch_bounds__(threads, 2) muon_step(MuonMemory op, const float* from, float* next) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float* polynomial = op.polynomial + matrix.squares_before;
  const float* right = (blockIdx.z == 0 ? from : op.gram) + matrix.squares_before;
  float* to = (blockIdx.z == 0 ? next : op.product) + matrix.squares_before;
  multiply_symmetric(side, side, packed(polynomial, side), packed(right, side),
                     [&](int i, int j, float value) { to[i * side + j] = value; });
}

// G' = H P.
__global__ void __launch_bounds__(threads, 2) muon_next_gram(MuonMemory op) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int side = smaller_side(matrix);
  const float *product = op.product + matrix.squares_before,
              *polynomial = op.polynomial + matrix.squares_before;
  float* gram = op.gram + matrix.squares_before;
  multiply_symmetric(side, side, packed(product, side), packed(polynomial, side),
                     [&](int i, int j, float value) { gram[i * side + j] = value; });
}

// The update with U = Q X or X Q, for X divided by its norm.
__global__ void __launch_bounds__(threads, 2) muon_update(MuonMemory op, const float* from) {
  if (op.results->nonfinite != 0) return;
  const MuonMatrix matrix = op.matrices[blockIdx.y];
  const int columns = matrix.columns, side = smaller_side(matrix);
  const float *x = op.x + matrix.elements_before, *q = from + matrix.squares_before;
  const float inverse = inverse_norm(op);
  const bool wide = matrix.rows <= columns;
  const View left{wide ? q : x, side, 1, wide ? 1 : inverse};  // Q's rows, or X's if X is tall
  const View right{wide ? x : q, columns, 1, wide ? inverse : 1};
  float* parameters = op.parameters + matrix.offset;
  const float rate = static_cast<float>(op.inputs->learning_rate[matrix.group]);
  const float decay = matrix.decays != 0 ? op.weight_decay : 0;
  multiply_tile(place_of_tile(columns), matrix.rows, columns, side, left, right,
                [&](int i, int j, float value) {
                  float& p = parameters[i * columns + j];
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
