// The inner part of a feed-forward network of tensor trains in bfloat16: what is between the narrow ends
// lives in registers only. As in attention a warp holds tiles of u and of what follows from it as fragments,
// and each becomes an operand of the next product where it is.

#include <algorithm>

#include "kernels/cuda/activations.h"
#include "kernels/cuda/async_copies.h"
#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tensor_cores.h"
#include "kernels/ops/tt_inner.h"

namespace comera::COMERA_CUDA {

namespace {

// ---- The activation. Kernels spend most of their time on it.

struct Gelu {
  float value, slope;
};

// The normal distribution's tail beyond |u| is its density times a polynomial of 1 / (1 + 0.326 |u|), after
// Hastings (Abramowitz and Stegun, 7.1.25); in s = |u| sqrt(log2(e) / 2) the density is a power of two.
// Values err by up to 6e-6, and for |u| < 3 by a thirtieth of what rounding them to bfloat16 changes; slopes
// by 2e-5.
__device__ __forceinline__ Gelu gelu(float u) {
  const float s = fabsf(u) * 0.84932180F;
  const float t = fast_reciprocal(1 + 0.38383567F * s);
  const float density = fast_exp2(-1.32574806F - s * s);
  float tail = 1.09764672F;
  tail = tail * t - 0.42021872F;
  tail = tail * t + 0.61839252F;
  tail = tail * t - 0.04245983F;
  const float below = 0.5F + copysignf(0.5F - density * tail, u);
  return {u * below, below + u * density};
}

// ---- What kernels are given. Rows of all matrices begin at multiples of 16 bytes.

struct Inner {
  const bfloat16 *xa, *b_up, *a_down, *dha;
  const float* bias;
  int tokens, inner, rank_up, rank_down;
};

// Ranks are padded with zeros to D = 32 or 64.
constexpr std::int64_t most_rank = 64;

// Tiles of a matrix with rows `apart` elements apart, one after the other on their way to shared memory,
// where rows are `stride` elements apart. Columns are multiples of 16 bytes.
template <int rows, int columns, int stride, int threads, class T>
class CopiedTiles {
 public:
  __device__ __forceinline__ CopiedTiles(int thread, const T* first, int apart)
      : from_(first + std::int64_t{row(thread)} * apart + column(thread)), step_(rows_at_once * apart) {}

  // The matrix has so many rows and columns left from the tile's first element on; zeros come for what is
  // beyond them. The next tile is so many elements behind this one.
  __device__ __forceinline__ void copy(AsyncCopies& copies, int thread, T* to, int rows_left,
                                       int columns_left, int next) {
    if (rows_at_once <= rows || row(thread) < rows) {
#pragma unroll
      for (int i = 0; i < pieces; ++i)
        copies.add(to + (row(thread) + i * rows_at_once) * stride + column(thread), from_ + i * step_,
                   row(thread) + i * rows_at_once < rows_left && column(thread) < columns_left);
    }
    from_ += next;
  }

 private:
  static constexpr int V = 16 / sizeof(T), across = columns / V, rows_at_once = threads / across;
  static constexpr int pieces = std::max(1, rows / rows_at_once);
  static_assert(rows_at_once > rows || rows % rows_at_once == 0);
  static __device__ __forceinline__ int row(int thread) { return thread / across; }
  static __device__ __forceinline__ int column(int thread) { return thread % across * V; }

  const T* from_;
  int step_;
};

// A of 16 rows and 16 columns, whose neighbours along the depth word(row, column) gives.
template <class Word>
__device__ __forceinline__ BF16::A fragment(const Word& word) {
  const int row = fragment_row(), column = fragment_column();
  return {{word(row, column), word(row + 8, column), word(row, column + 8), word(row + 8, column + 8)}};
}

// Sixteen rows of a matrix with so many columns, an even number.
__device__ __forceinline__ BF16::A row_fragment(const bfloat16* from, int first_row, int rows,
                                                int first_column, int columns) {
  return fragment([&](int row, int column) {
    const bool real = first_row + row < rows && first_column + column < columns;
    return real ? *reinterpret_cast<const unsigned*>(from + std::int64_t{first_row + row} * columns +
                                                     first_column + column)
                : 0u;
  });
}

// ---- Over tokens: ha, or dxa. A block has 64 tokens, and goes over the inner columns, or over a part of
// them; its warps are groups of tokens times groups of columns, whose sums are added in the end.

constexpr int row_warps = 8;
constexpr int row_threads = row_warps * warp;
constexpr int block_tokens = 64;

template <int D>
struct RowTiles {
  static constexpr int row_tiles = 64 / D;  // of 16 tokens each, of a warp
  static constexpr int row_groups = block_tokens / (16 * row_tiles), column_groups = row_warps / row_groups;
  static constexpr int columns = 64;                     // of a warp
  static constexpr int chunk = columns * column_groups;  // that are in shared memory at once
  static constexpr int b_stride = chunk + 8, a_stride = D + 8, sum_stride = D + 8;
  static constexpr int b_elements = D * b_stride, elements = b_elements + chunk * a_stride;
  static constexpr std::size_t stage_bytes = elements * sizeof(bfloat16) + chunk * sizeof(float);
  static constexpr std::size_t sum_bytes = sizeof(float) * column_groups * block_tokens * sum_stride;
  static constexpr std::size_t shared_bytes = std::max(2 * stage_bytes, sum_bytes);
};

// Columns [columns_each blockIdx.y, …). Their sums go to `to` if there is no partial, else to their part of
// partial (parts, tokens, rank).
template <int D, bool gradient>
__global__ void __launch_bounds__(row_threads, 2)
    inner_rows_kernel(Inner op, int columns_each, bfloat16* to, float* partial) {
  using Tiles = RowTiles<D>;
  constexpr int R = Tiles::row_tiles, chunk = Tiles::chunk;
  auto* shared = shared_array<std::byte>(Tiles::shared_bytes);
  const int row_group = warp_of_thread() / Tiles::column_groups;
  const int column_group = warp_of_thread() % Tiles::column_groups;
  const int first_token = static_cast<int>(blockIdx.x) * block_tokens;
  const int begin = static_cast<int>(blockIdx.y) * columns_each, end = min(begin + columns_each, op.inner);

  const auto b_up_of = [&](int stage) {
    return reinterpret_cast<bfloat16*>(shared + stage * Tiles::stage_bytes);
  };
  const auto bias_of = [&](int stage) {
    return reinterpret_cast<float*>(shared + stage * Tiles::stage_bytes + Tiles::elements * sizeof(bfloat16));
  };
  AsyncCopies copies;
  CopiedTiles<D, chunk, Tiles::b_stride, row_threads, bfloat16> b_up_tiles(
      static_cast<int>(thread_asked_for() % row_threads), op.b_up + begin, op.inner);
  CopiedTiles<chunk, D, Tiles::a_stride, row_threads, bfloat16> a_down_tiles(
      static_cast<int>(thread_asked_for() % row_threads), op.a_down + std::int64_t{begin} * op.rank_down,
      op.rank_down);
  CopiedTiles<1, chunk, 0, row_threads, float> bias_tiles(static_cast<int>(thread_asked_for() % row_threads),
                                                          op.bias + begin, 0);
  const auto copy = [&](int stage, int column) {
    bfloat16* b_up = b_up_of(stage);
    const int left = op.inner - column, thread = static_cast<int>(thread_asked_for() % row_threads);
    b_up_tiles.copy(copies, thread, b_up, op.rank_up, left, chunk);
    a_down_tiles.copy(copies, thread, b_up + Tiles::b_elements, left, op.rank_down, chunk * op.rank_down);
    bias_tiles.copy(copies, thread, bias_of(stage), 1, left, chunk);
  };
  if (begin < end) copy(0, begin);

  BF16::A xa[R][D / 16], dha[gradient ? R : 1][D / 16];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      const int first = first_token + (row_group * R + r) * 16;
      xa[r][k] = row_fragment(op.xa, first, op.tokens, 16 * k, op.rank_up);
      if constexpr (gradient) dha[r][k] = row_fragment(op.dha, first, op.tokens, 16 * k, op.rank_down);
    }

  TileC sum[R][D / 8] = {};
  int stage = 0;
  for (int first = begin; first < end; first += chunk, stage ^= 1) {
    copies.wait();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    if (first + chunk < end) copy(stage ^ 1, first + chunk);
    const bfloat16 *b_up = b_up_of(stage), *a_down = b_up + Tiles::b_elements;
    const float* bias = bias_of(stage);
#pragma unroll 1
    for (int j = 0; j < Tiles::columns; j += 16) {
      const int column = column_group * Tiles::columns + j;
      TileC u[R][2];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const Values<2> start = load<2>(bias + column + 8 * n + fragment_column());
#pragma unroll
        for (int r = 0; r < R; ++r) u[r][n] = {{start.at[0], start.at[1], start.at[0], start.at[1]}};
      }
#pragma unroll
      for (int k = 0; k < D / 16; ++k)
        each_b_of_columns<BF16, 2>(b_up + 16 * k * Tiles::b_stride + column, Tiles::b_stride,
                                   [&](int n, const BF16::B& b) {
#pragma unroll
                                     for (int r = 0; r < R; ++r) BF16::multiply(u[r][n], xa[r][k], b);
                                   });
      if constexpr (gradient) {
        TileC dh[R][2] = {};
#pragma unroll
        for (int k = 0; k < D / 16; ++k)
          each_b_of_rows<BF16, 2>(a_down + column * Tiles::a_stride + 16 * k, Tiles::a_stride,
                                  [&](int n, const BF16::B& b) {
#pragma unroll
                                    for (int r = 0; r < R; ++r) BF16::multiply(dh[r][n], dha[r][k], b);
                                  });
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
          for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) u[r][n].at[i] = dh[r][n].at[i] * gelu(u[r][n].at[i]).slope;
      } else {
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
          for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) u[r][n].at[i] = gelu(u[r][n].at[i]).value;
      }
      BF16::A made[R];
#pragma unroll
      for (int r = 0; r < R; ++r) made[r] = BF16::make_a(u[r]);
      const auto add = [&](int n, const BF16::B& b) {
#pragma unroll
        for (int r = 0; r < R; ++r) BF16::multiply(sum[r][n], made[r], b);
      };
      if constexpr (gradient)
        each_b_of_rows<BF16, D / 8>(b_up + column, Tiles::b_stride, add);
      else
        each_b_of_columns<BF16, D / 8>(a_down + column * Tiles::a_stride, Tiles::a_stride, add);
    }
  }

  __syncthreads();
  auto* sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (row_group * R + r) * 16 + fragment_row() + 8 * half;
        store(sums + (column_group * block_tokens + row) * Tiles::sum_stride + 8 * n + fragment_column(),
              Values<2>{{sum[r][n].at[2 * half], sum[r][n].at[2 * half + 1]}});
      }
  __syncthreads();
  const int rank = gradient ? op.rank_up : op.rank_down;
  for (int i = static_cast<int>(threadIdx.x); i < block_tokens * D / 4; i += row_threads) {
    const int row = i / (D / 4), column = i % (D / 4) * 4;
    if (first_token + row >= op.tokens || column >= rank) continue;
    Values<4> total{};
#pragma unroll
    for (int group = 0; group < Tiles::column_groups; ++group) {
      const Values<4> part = load<4>(sums + (group * block_tokens + row) * Tiles::sum_stride + column);
#pragma unroll
      for (int k = 0; k < 4; ++k) total.at[k] += part.at[k];
    }
    const std::int64_t place = std::int64_t{first_token + row} * rank + column;
    if (partial == nullptr)
      store(to + place, total);
    else
      store(partial + std::int64_t{blockIdx.y} * op.tokens * rank + place, total);
  }
}

// ---- Over inner columns: the gradients of what is read for each of them. A warp owns some, as rows of
// fragments, and goes over the tokens, or over a part of them.

constexpr int column_warps = 4;
constexpr int column_threads = column_warps * warp;

template <int D>
struct ColumnTiles {
  static constexpr int row_tiles = 64 / D;                       // of 16 columns each, of a warp
  static constexpr int columns = 16 * row_tiles * column_warps;  // of a block
  static constexpr int tokens = 2048 / D;                        // that are in shared memory at once
  static constexpr int stride = D + 8, elements = tokens * stride;
  static constexpr std::size_t tile_bytes = 4 * elements * sizeof(bfloat16);
  static constexpr std::size_t shared_bytes = tile_bytes + 2 * columns * sizeof(float);
};

// Of a multiprocessor. Where three are asked for, the compiler spills for desktop Blackwell.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int column_blocks = 2;
#else
constexpr int column_blocks = 3;
#endif

// Tokens [tokens_each blockIdx.y, …). Their sums go to their part of partial (parts, (M s + r M + M)):
// gradients of a_down, b_up and the bias, one behind the other.
template <int D>
__global__ void __launch_bounds__(column_threads, column_blocks)
    inner_columns_kernel(Inner op, int tokens_each, float* partial) {
  using Tiles = ColumnTiles<D>;
  constexpr int R = Tiles::row_tiles, stride = Tiles::stride;
  auto* shared = reinterpret_cast<bfloat16*>(shared_array<std::byte>(Tiles::shared_bytes));
  // Of each row of a tile and the row eight below it the biases, twice: where sums of u begin. Registers have
  // no room for them.
  auto* starts = reinterpret_cast<float*>(shared + 4 * Tiles::elements) +
                 (warp_of_thread() * R * 8 + fragment_row()) * 4;
  const int own = static_cast<int>(blockIdx.x) * Tiles::columns + warp_of_thread() * 16 * R;
  const int begin = static_cast<int>(blockIdx.y) * tokens_each, end = min(begin + tokens_each, op.tokens);

  AsyncCopies copies;
  CopiedTiles<Tiles::tokens, D, stride, column_threads, bfloat16> xa_tiles(
      static_cast<int>(thread_asked_for() % column_threads), op.xa + std::int64_t{begin} * op.rank_up,
      op.rank_up),
      dha_tiles(static_cast<int>(thread_asked_for() % column_threads),
                op.dha + std::int64_t{begin} * op.rank_down, op.rank_down);
  const auto copy = [&](int stage, int token) {
    bfloat16* xa = shared + 2 * stage * Tiles::elements;
    const int left = end - token, thread = static_cast<int>(thread_asked_for() % column_threads);
    xa_tiles.copy(copies, thread, xa, left, op.rank_up, Tiles::tokens * op.rank_up);
    dha_tiles.copy(copies, thread, xa + Tiles::elements, left, op.rank_down, Tiles::tokens * op.rank_down);
  };
  if (begin < end) copy(0, begin);

  BF16::A b_up[R][D / 16], a_down[R][D / 16];
  float dbias[R][2] = {};
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      b_up[r][k] = fragment([&](int row, int column) {
        const int rank = 16 * k + column;
        if (own + 16 * r + row >= op.inner || rank >= op.rank_up) return 0u;
        const bfloat16* from = op.b_up + std::int64_t{rank} * op.inner + own + 16 * r + row;
        return from[0].bits | static_cast<unsigned>(from[op.inner].bits) << 16;
      });
      a_down[r][k] = row_fragment(op.a_down, own + 16 * r, op.inner, 16 * k, op.rank_down);
    }
    if (fragment_column() == 0) {
      const int column = own + 16 * r + fragment_row();
      const float bias = column < op.inner ? op.bias[column] : 0;
      const float below = column + 8 < op.inner ? op.bias[column + 8] : 0;
      store(starts + r * 32, Values<4>{{bias, bias, below, below}});
    }
  }

  TileC da_down[R][D / 8] = {}, db_up[R][D / 8] = {};
  int stage = 0;
  for (int first = begin; first < end; first += Tiles::tokens, stage ^= 1) {
    copies.wait();
    __syncthreads();  // this stage is there, and nobody reads the other one any more
    if (first + Tiles::tokens < end) copy(stage ^ 1, first + Tiles::tokens);
    const bfloat16* xa = shared + 2 * stage * Tiles::elements;
    const bfloat16* dha = xa + Tiles::elements;
#pragma unroll 1
    for (int token = 0; token < Tiles::tokens; token += 16, xa += 16 * stride, dha += 16 * stride) {
      TileC u[R][2], du[R][2] = {};  // tokens are columns; du is dh first
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const Values<4> start = load<4>(starts + r * 32);
#pragma unroll
        for (int n = 0; n < 2; ++n) u[r][n] = {{start.at[0], start.at[1], start.at[2], start.at[3]}};
      }
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        each_b_of_rows<BF16, 2>(xa + 16 * k, stride, [&](int n, const BF16::B& b) {
#pragma unroll
          for (int r = 0; r < R; ++r) BF16::multiply(u[r][n], b_up[r][k], b);
        });
        each_b_of_rows<BF16, 2>(dha + 16 * k, stride, [&](int n, const BF16::B& b) {
#pragma unroll
          for (int r = 0; r < R; ++r) BF16::multiply(du[r][n], a_down[r][k], b);
        });
      }
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const Gelu at = gelu(u[r][n].at[i]);
            u[r][n].at[i] = at.value;
            du[r][n].at[i] *= at.slope;
            dbias[r][i / 2] += du[r][n].at[i];
          }
      BF16::A h[R], gradient[R];
#pragma unroll
      for (int r = 0; r < R; ++r) h[r] = BF16::make_a(u[r]), gradient[r] = BF16::make_a(du[r]);
      each_b_of_columns<BF16, D / 8>(dha, stride, [&](int n, const BF16::B& b) {
#pragma unroll
        for (int r = 0; r < R; ++r) BF16::multiply(da_down[r][n], h[r], b);
      });
      each_b_of_columns<BF16, D / 8>(xa, stride, [&](int n, const BF16::B& b) {
#pragma unroll
        for (int r = 0; r < R; ++r) BF16::multiply(db_up[r][n], gradient[r], b);
      });
    }
  }

  const int thread = static_cast<int>(thread_asked_for() % column_threads);
  const int first_row =
      static_cast<int>(blockIdx.x) * Tiles::columns + thread / warp * 16 * R + thread % warp / 4;
  const int first_rank = thread % 4 * 2;
  const std::int64_t inner = op.inner;
  float* to_a_down = partial + blockIdx.y * inner * (op.rank_down + op.rank_up + 1);
  float* to_b_up = to_a_down + inner * op.rank_down;
  float* to_bias = to_b_up + inner * op.rank_up;
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(dbias[r][half]);
      const std::int64_t column = first_row + 16 * r + 8 * half;
      if (column >= inner) continue;
      if (first_rank == 0) to_bias[column] = sum;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        const int rank = 8 * n + first_rank;
        if (8 * n < op.rank_down)
          store(to_a_down + column * op.rank_down + rank,
                Values<2>{{da_down[r][n].at[2 * half], da_down[r][n].at[2 * half + 1]}});
        if (8 * n < op.rank_up)
#pragma unroll
          for (int i = 0; i < 2; ++i) to_b_up[(rank + i) * inner + column] = db_up[r][n].at[2 * half + i];
      }
    }
}

// ---- What parts of the columns or of the tokens gave, in their order.

template <int V>
__device__ __forceinline__ Values<V> sum_of_parts(const float* partial, std::int64_t parts,
                                                  std::int64_t apart) {
  Values<V> sum{};
  for (std::int64_t p = 0; p < parts; ++p) {
    const Values<V> part = load<V>(partial + p * apart);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
  }
  return sum;
}

struct RoundedSums {
  const float* partial;
  std::int64_t parts, count;
  bfloat16* to;

  template <int V>
  __device__ void run(std::int64_t i) const {
    store(to + i, sum_of_parts<V>(partial + i, parts, count));
  }
};

// To gradients that stand one behind the other in a part; all sizes are multiples of V.
struct GradientSums {
  const float* partial;
  std::int64_t parts, of_a_down, of_b_up, count;
  float *da_down, *db_up, *dbias;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> sum = sum_of_parts<V>(partial + i, parts, count);
    float* to = da_down + i;
    if (i >= of_a_down) to = db_up + (i - of_a_down);
    if (i >= of_a_down + of_b_up) to = dbias + (i - of_a_down - of_b_up);
    const Values<V> before = load<V>(to);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.at[k] += before.at[k];
    store(to, sum);
  }
};

// ---- What is launched. So many blocks fill the largest GPUs: with fewer tokens, columns are divided as
// well. The numbers are the same on every GPU, and with them the bits of the results.

constexpr std::int64_t multiprocessors = 132;

template <int D>
int columns_each(std::int64_t tokens, int inner) {
  constexpr std::int64_t chunk = RowTiles<D>::chunk, least = 2;  // chunks
  const std::int64_t parts = 2 * multiprocessors / blocks_for(tokens, block_tokens);
  return static_cast<int>(
      chunk * std::max(blocks_for(blocks_for(inner, chunk), std::max<std::int64_t>(parts, 1)), least));
}

// kernel(D)
template <class Operation, class Kernel>
auto with_rank(const Operation& op, const Kernel& kernel) {
  if (std::max(op.b_up.dim(0), op.a_down.dim(1)) <= 32) return kernel(std::integral_constant<int, 32>{});
  return kernel(std::integral_constant<int, 64>{});
}

template <class Operation>
Inner inner_of(const Operation& op) {
  return {.xa = op.xa.template data<bfloat16>(),
          .b_up = op.b_up.template data<bfloat16>(),
          .a_down = op.a_down.template data<bfloat16>(),
          .dha = nullptr,
          .bias = op.bias.template data<float>(),
          .tokens = static_cast<int>(op.xa.dim(0)),
          .inner = static_cast<int>(op.b_up.dim(1)),
          .rank_up = static_cast<int>(op.b_up.dim(0)),
          .rank_down = static_cast<int>(op.a_down.dim(1))};
}

// Of a part of the columns: floats.
template <int D>
std::size_t row_scratch(std::int64_t tokens, int inner, std::int64_t rank) {
  const std::int64_t parts = blocks_for(inner, columns_each<D>(tokens, inner));
  return parts <= 1 ? 0 : static_cast<std::size_t>(parts * tokens * rank) * sizeof(float);
}

template <int D, bool gradient>
void over_rows(const Inner& op, bfloat16* to, const KernelContext& context) {
  const int each_part = columns_each<D>(op.tokens, op.inner), rank = gradient ? op.rank_up : op.rank_down;
  const std::int64_t parts = blocks_for(op.inner, each_part);
  auto* partial = parts > 1 ? reinterpret_cast<float*>(context.scratch) : nullptr;
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {blocks_for(op.tokens, block_tokens), parts},
                             .threads = row_threads,
                             .shared_bytes = RowTiles<D>::shared_bytes}),
                (inner_rows_kernel<D, gradient>), op, each_part, to, partial);
  const std::int64_t count = std::int64_t{op.tokens} * rank;
  if (parts > 1) each(context.stream, RoundedSums{partial, parts, count, to}, count, rank);
}

template <int D>
int tokens_each(std::int64_t tokens, std::int64_t inner) {
  constexpr std::int64_t at_once = ColumnTiles<D>::tokens, least = 4;  // of those
  const std::int64_t parts = 3 * multiprocessors / blocks_for(inner, ColumnTiles<D>::columns);
  return static_cast<int>(
      at_once * std::max(blocks_for(blocks_for(tokens, at_once), std::max<std::int64_t>(parts, 1)), least));
}

template <int D>
std::size_t column_scratch(const TTInnerBackward& op) {
  const std::int64_t tokens = op.xa.dim(0), inner = op.b_up.dim(1);
  return static_cast<std::size_t>(blocks_for(tokens, tokens_each<D>(tokens, inner)) *
                                  (op.a_down.elements() + op.b_up.elements() + inner)) *
         sizeof(float);
}

template <int D>
void over_columns(const TTInnerBackward& op, const Inner& inner, const KernelContext& context) {
  const int each_part = tokens_each<D>(inner.tokens, inner.inner);
  const std::int64_t parts = blocks_for(inner.tokens, each_part);
  auto* partial = reinterpret_cast<float*>(context.scratch);
  COMERA_LAUNCH(context.stream,
                (LaunchShape{.grid = {blocks_for(inner.inner, ColumnTiles<D>::columns), parts},
                             .threads = column_threads,
                             .shared_bytes = ColumnTiles<D>::shared_bytes}),
                inner_columns_kernel<D>, inner, each_part, partial);
  const GradientSums sums{.partial = partial,
                          .parts = parts,
                          .of_a_down = op.a_down.elements(),
                          .of_b_up = op.b_up.elements(),
                          .count = op.a_down.elements() + op.b_up.elements() + inner.inner,
                          .da_down = op.da_down.data<float>(),
                          .db_up = op.db_up.data<float>(),
                          .dbias = op.dbias.data<float>()};
  each(context.stream, sums, sums.count, inner.inner);
}

// Others are composed.
template <class Operation>
bool fits(const Operation& op, std::initializer_list<const Tensor*> tensors) {
  const std::int64_t rank_up = op.b_up.dim(0), inner = op.b_up.dim(1), rank_down = op.a_down.dim(1);
  return op.activation == Activation::gelu && op.xa.dim(0) > 0 && op.xa.dim(0) <= 1 << 30 && inner > 0 &&
         inner <= 1 << 24 && std::max(rank_up, rank_down) <= most_rank && rank_up % 8 == 0 &&
         rank_down % 8 == 0 && inner % 8 == 0 && std::ranges::all_of(tensors, [](const Tensor* tensor) {
           return reinterpret_cast<std::uintptr_t>(tensor->raw()) % 16 == 0;
         });
}

bool tt_inner_forward_fits(const TTInnerForward& op) {
  return fits(op, {&op.xa, &op.b_up, &op.bias, &op.a_down, &op.ha});
}

std::size_t tt_inner_forward_scratch(const TTInnerForward& op) {
  return with_rank(op, [&](auto size) {
    return row_scratch<decltype(size)::value>(op.xa.dim(0), static_cast<int>(op.b_up.dim(1)),
                                              op.a_down.dim(1));
  });
}

void tt_inner_forward(const TTInnerForward& op, const KernelContext& context) {
  with_rank(op, [&](auto size) {
    over_rows<decltype(size)::value, false>(inner_of(op), op.ha.data<bfloat16>(), context);
  });
}

bool tt_inner_backward_fits(const TTInnerBackward& op) {
  return fits(op,
              {&op.xa, &op.b_up, &op.bias, &op.a_down, &op.dha, &op.db_up, &op.dbias, &op.da_down, &op.dxa});
}

// The two directions one after the other, in the same memory.
std::size_t tt_inner_backward_scratch(const TTInnerBackward& op) {
  return with_rank(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    return std::max(row_scratch<D>(op.xa.dim(0), static_cast<int>(op.b_up.dim(1)), op.b_up.dim(0)),
                    column_scratch<D>(op));
  });
}

void tt_inner_backward(const TTInnerBackward& op, const KernelContext& context) {
  Inner inner = inner_of(op);
  inner.dha = op.dha.data<bfloat16>();
  with_rank(op, [&](auto size) {
    constexpr int D = decltype(size)::value;
    over_rows<D, true>(inner, op.dxa.data<bfloat16>(), context);
    over_columns<D>(op, inner, context);
  });
}

}  // namespace

void register_tt_inner(Backend& backend, bool /*tf32*/) {
  backend.set<TTInnerForward>(DType::bfloat16, tt_inner_forward, tt_inner_forward_scratch,
                              tt_inner_forward_fits);
  backend.set<TTInnerBackward>(DType::bfloat16, tt_inner_backward, tt_inner_backward_scratch,
                               tt_inner_backward_fits);
}

}  // namespace comera::COMERA_CUDA
