// The inner part of a feed-forward network of tensor trains, over tokens: ha, or dxa.

#include "kernels/cuda/tensor_trains/tt_inner.h"

namespace comera::COMERA_CUDA {

namespace {

// A block has 64 tokens, and iterates over the inner columns, or over a part of them; its warps are groups of
// tokens times groups of columns, whose sums are added at the end.

constexpr int row_warps = 8;
constexpr int row_threads = row_warps * warp;
constexpr int block_tokens = 64;

template <int D>
struct RowTiles {
  static constexpr int row_tiles = D < 64 ? 2 : 1;  // of 16 tokens each, per warp
  static constexpr int row_groups = block_tokens / (16 * row_tiles), column_groups = row_warps / row_groups;
  static constexpr int columns = D > 64 ? 32 : 64;       // per warp
  static constexpr int chunk = columns * column_groups;  // in shared memory at a time
  static constexpr int width = inner_width<D>;
  static constexpr int b_stride = chunk + 8, a_stride = width + 8, sum_stride = D + 8;
  static constexpr int b_elements = width * b_stride, elements = b_elements + chunk * a_stride;
  static constexpr std::size_t stage_bytes = elements * sizeof(bfloat16) + chunk * sizeof(float);
  static constexpr std::size_t sum_bytes = sizeof(float) * column_groups * block_tokens * sum_stride;
  static constexpr std::size_t shared_bytes = std::max(2 * stage_bytes, sum_bytes);
};

// Columns [columns_each blockIdx.y, …). Their sums go to `to` if there is no partial, else to their part of
// partial (parts, tokens, rank).
template <int D, bool gradient>
__global__ void __launch_bounds__(row_threads, (D > 64 ? 1 : 2))
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
  CopiedTiles<Tiles::width, chunk, Tiles::b_stride, row_threads, bfloat16> b_up_tiles(
      static_cast<int>(opaque_thread_index() % row_threads), op.b_up + begin, op.inner);
  CopiedTiles<chunk, Tiles::width, Tiles::a_stride, row_threads, bfloat16> a_down_tiles(
      static_cast<int>(opaque_thread_index() % row_threads), op.a_down + std::int64_t{begin} * op.rank_down,
      op.rank_down);
  CopiedTiles<1, chunk, 0, row_threads, float> bias_tiles(
      static_cast<int>(opaque_thread_index() % row_threads), op.bias + begin, 0);
  const auto copy = [&](int stage, int column) {
    bfloat16* b_up = b_up_of(stage);
    const int left = op.inner - column, thread = static_cast<int>(opaque_thread_index() % row_threads);
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
    __syncthreads();  // this stage has arrived, and all warps are done with the other one
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
template <int D>
int columns_each(std::int64_t tokens, int inner) {
  constexpr std::int64_t chunk = RowTiles<D>::chunk, least = 2;  // chunks
  const std::int64_t parts = 2 * multiprocessors / blocks_for(tokens, block_tokens);
  return static_cast<int>(
      chunk * std::max(blocks_for(blocks_for(inner, chunk), std::max<std::int64_t>(parts, 1)), least));
}

template <int D, bool gradient>
RoundedSums over_rows(const Inner& op, bfloat16* to, float* scratch, const Stream& stream) {
  const int each_part = columns_each<D>(op.tokens, op.inner), rank = gradient ? op.rank_up : op.rank_down;
  const std::int64_t parts = blocks_for(op.inner, each_part);
  float* partial = parts > 1 ? scratch : nullptr;
  COMERA_LAUNCH(stream,
                (LaunchShape{.grid = {blocks_for(op.tokens, block_tokens), parts},
                             .threads = row_threads,
                             .shared_bytes = RowTiles<D>::shared_bytes}),
                (inner_rows_kernel<D, gradient>), op, each_part, to, partial);
  return {partial, parts, parts > 1 ? std::int64_t{op.tokens} * rank : 0, to};
}

}  // namespace

std::size_t inner_rows_scratch(std::int64_t tokens, std::int64_t inner, std::int64_t rank,
                               std::int64_t widest) {
  const std::int64_t parts = with_rank(widest, [&](auto size) {
    return blocks_for(inner, columns_each<decltype(size)::value>(tokens, static_cast<int>(inner)));
  });
  return parts <= 1 ? 0 : static_cast<std::size_t>(parts * tokens * rank) * sizeof(float);
}

RoundedSums inner_rows(const Inner& op, bool gradient, std::int64_t widest, bfloat16* to, float* scratch,
                       const Stream& stream) {
  return with_rank(widest, [&](auto size) {
    constexpr int D = decltype(size)::value;
    return gradient ? over_rows<D, true>(op, to, scratch, stream)
                    : over_rows<D, false>(op, to, scratch, stream);
  });
}

}  // namespace comera::COMERA_CUDA
