// The inner part of a feed-forward network of tensor trains, over its columns: the gradients of tensors with
// an entry per column.

#include "kernels/cuda/tensor_trains/tt_inner.h"

namespace comera::COMERA_CUDA {

namespace {

// A warp owns some columns, as rows of fragments, and iterates over the tokens, or over a part of them.

constexpr int column_warps = 4;
constexpr int column_threads = column_warps * warp;

template <int D>
struct ColumnTiles {
  static constexpr int row_tiles = D < 64 ? 2 : 1;               // of 16 columns each, per warp
  static constexpr int columns = 16 * row_tiles * column_warps;  // per block
  static constexpr int width = inner_width<D>;
  static constexpr int tokens = 2048 / width;  // in shared memory at a time
  static constexpr int stride = width + 8, elements = tokens * stride;
  static constexpr std::size_t tile_bytes = 4 * elements * sizeof(bfloat16);
  static constexpr std::size_t shared_bytes = tile_bytes + 2 * columns * sizeof(float);
};

// Blocks per multiprocessor. With three, the compiler spills for desktop Blackwell, and for wide ranks.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int most_column_blocks = 2;
#else
constexpr int most_column_blocks = 3;
#endif
template <int D>
constexpr int column_blocks = D > 64 ? 2 : most_column_blocks;

// Tokens [tokens_each blockIdx.y, …). Their sums go to their part of partial (parts, (M s + r M + M)):
// gradients of a_down, b_up and the bias, consecutively.
template <int D>
__global__ void __launch_bounds__(column_threads, column_blocks<D>)
    inner_columns_kernel(Inner op, int tokens_each, float* partial) {
  using Tiles = ColumnTiles<D>;
  constexpr int R = Tiles::row_tiles, stride = Tiles::stride;
  auto* shared = reinterpret_cast<bfloat16*>(shared_array<std::byte>(Tiles::shared_bytes));
  // For each row of a tile and the row eight below it, the biases, twice: the initial values of sums of u.
  // Registers have no room for them.
  auto* starts = reinterpret_cast<float*>(shared + 4 * Tiles::elements) +
                 (warp_of_thread() * R * 8 + fragment_row()) * 4;
  const int own = static_cast<int>(blockIdx.x) * Tiles::columns + warp_of_thread() * 16 * R;
  const int begin = static_cast<int>(blockIdx.y) * tokens_each, end = min(begin + tokens_each, op.tokens);

  AsyncCopies copies;
  CopiedTiles<Tiles::tokens, Tiles::width, stride, column_threads, bfloat16> xa_tiles(
      static_cast<int>(opaque_thread_index() % column_threads), op.xa + std::int64_t{begin} * op.rank_up,
      op.rank_up),
      dha_tiles(static_cast<int>(opaque_thread_index() % column_threads),
                op.dha + std::int64_t{begin} * op.rank_down, op.rank_down);
  const auto copy = [&](int stage, int token) {
    bfloat16* xa = shared + 2 * stage * Tiles::elements;
    const int left = end - token, thread = static_cast<int>(opaque_thread_index() % column_threads);
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
    __syncthreads();  // this stage has arrived, and all warps are done with the other one
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

  const int thread = static_cast<int>(opaque_thread_index() % column_threads);
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
GradientSums over_columns(const TTInnerBackward& op, const Inner& inner, float* partial,
                          const Stream& stream) {
  const int each_part = tokens_each<D>(inner.tokens, inner.inner);
  const std::int64_t parts = blocks_for(inner.tokens, each_part);
  COMERA_LAUNCH(stream,
                (LaunchShape{.grid = {blocks_for(inner.inner, ColumnTiles<D>::columns), parts},
                             .threads = column_threads,
                             .shared_bytes = ColumnTiles<D>::shared_bytes}),
                inner_columns_kernel<D>, inner, each_part, partial);
  return {.partial = partial,
          .parts = parts,
          .of_a_down = op.a_down.elements(),
          .of_b_up = op.b_up.elements(),
          .count = op.a_down.elements() + op.b_up.elements() + inner.inner,
          .da_down = op.da_down.data<float>(),
          .db_up = op.db_up.data<float>(),
          .dbias = op.dbias.data<float>()};
}

}  // namespace

std::size_t inner_columns_scratch(const TTInnerBackward& op, std::int64_t widest) {
  return with_rank(widest, [&](auto size) { return column_scratch<decltype(size)::value>(op); });
}

GradientSums inner_columns(const TTInnerBackward& op, const Inner& inner, std::int64_t widest, float* scratch,
                           const Stream& stream) {
  return with_rank(
      widest, [&](auto size) { return over_columns<decltype(size)::value>(op, inner, scratch, stream); });
}

}  // namespace comera::COMERA_CUDA
