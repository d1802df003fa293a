// The inner part of a feed-forward network of tensor trains in bfloat16: what is between the narrow ends
// lives in registers only. As in attention a warp holds tiles of u and of what follows from it as fragments,
// and each becomes an operand of the next product where it is.

#include <algorithm>

#include "kernels/cuda/async_copies.h"
#include "kernels/cuda/each.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/tensor_cores.h"
#include "kernels/ops/tt_inner.h"

namespace comera::COMERA_CUDA {

namespace {

// ---- The activation. It is computed as often as all the products together take time, so it is one
// exponential and a polynomial.

__device__ __forceinline__ float power_of_two(float x) {
#if defined(COMERA_EMULATED)
  return std::exp2(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

struct Gelu {
  float value, slope;
};

// With s = |u| sqrt(log2(e) / 2), 2^-s² is exp(-u² / 2), and the normal distribution's upper tail is that
// times a polynomial of s, fitted to 5e-5; values differ by 2e-5, a seventeenth of what rounding them to
// bfloat16 may change. Far out, where both factors would be lost, s ends.
__device__ __forceinline__ Gelu gelu(float u) {
  const float s = fminf(fabsf(u) * 0.84932180F, 11);
  const float e = power_of_two(s * -s);
  float tail = -0.000200791097F;
  tail = tail * s + 0.00302868926F;
  tail = tail * s - 0.0197262039F;
  tail = tail * s + 0.0742466532F;
  tail = tail * s - 0.184809881F;
  tail = tail * s + 0.334404262F;
  tail = tail * s - 0.467834157F;
  tail = tail * s + 0.499947801F;
  const float below = 0.5F + copysignf(0.5F - e * tail, u);
  return {u * below, below + u * (e * 0.398942280F)};
}

// ---- What kernels are given. Rows of all matrices begin at multiples of 16 bytes.

struct Inner {
  const bfloat16 *xa, *b_up, *a_down, *dha;
  const float* bias;
  std::int64_t tokens;
  int inner, rank_up, rank_down;
};

// Ranks are padded with zeros to D = 32 or 64.
constexpr std::int64_t most_rank = 64;

// Rows [first_row, first_row + rows) and columns [first_column, …) of a matrix (all_rows, all_columns) on
// their way to shared memory, zeros for what is outside of it; all columns are multiples of 16 bytes.
template <int rows, int columns, int threads, class T>
__device__ __forceinline__ void copy_tile(AsyncCopies& copies, T* to, int stride, const T* from,
                                          std::int64_t first_row, std::int64_t all_rows, int first_column,
                                          int all_columns) {
  constexpr int V = 16 / sizeof(T), across = columns / V;
#pragma unroll
  for (int begin = 0; begin < rows * across; begin += threads) {
    const int i = begin + static_cast<int>(threadIdx.x), row = i / across, column = i % across * V;
    if (rows * across % threads != 0 && i >= rows * across) break;
    copies.add(to + row * stride + column, from + (first_row + row) * all_columns + first_column + column,
               first_row + row < all_rows && first_column + column < all_columns);
  }
}

// A of 16 rows and 16 columns, whose neighbours along the depth word(row, column) gives.
template <class Word>
__device__ __forceinline__ BF16::A fragment(const Word& word) {
  const int row = fragment_row(), column = fragment_column();
  return {{word(row, column), word(row + 8, column), word(row, column + 8), word(row + 8, column + 8)}};
}

// Sixteen rows of a matrix with so many columns, an even number.
__device__ __forceinline__ BF16::A row_fragment(const bfloat16* from, std::int64_t first_row,
                                                std::int64_t rows, int first_column, int columns) {
  return fragment([&](int row, int column) {
    const bool real = first_row + row < rows && first_column + column < columns;
    return real ? *reinterpret_cast<const unsigned*>(from + (first_row + row) * columns + first_column +
                                                     column)
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
  static constexpr int columns = 32;                     // of a warp
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
  const std::int64_t first_token = std::int64_t{blockIdx.x} * block_tokens;
  const int begin = static_cast<int>(blockIdx.y) * columns_each, end = min(begin + columns_each, op.inner);

  const auto b_up_of = [&](int stage) {
    return reinterpret_cast<bfloat16*>(shared + stage * Tiles::stage_bytes);
  };
  const auto bias_of = [&](int stage) {
    return reinterpret_cast<float*>(shared + stage * Tiles::stage_bytes + Tiles::elements * sizeof(bfloat16));
  };
  AsyncCopies copies;
  const auto copy = [&](int stage, int column) {
    bfloat16* b_up = b_up_of(stage);
    copy_tile<D, chunk, row_threads>(copies, b_up, Tiles::b_stride, op.b_up, 0, op.rank_up, column, op.inner);
    copy_tile<chunk, D, row_threads>(copies, b_up + Tiles::b_elements, Tiles::a_stride, op.a_down, column,
                                     op.inner, 0, op.rank_down);
    copy_tile<1, chunk, row_threads>(copies, bias_of(stage), chunk, op.bias, 0, 1, column, op.inner);
  };
  if (begin < end) copy(0, begin);

  BF16::A xa[R][D / 16], dha[gradient ? R : 1][D / 16];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      const std::int64_t first = first_token + (row_group * R + r) * 16;
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
    const std::int64_t place = (first_token + row) * rank + column;
    if (partial == nullptr)
      store(to + place, total);
    else
      store(partial + blockIdx.y * op.tokens * rank + place, total);
  }
}

// What the parts of the columns gave, in their order.
struct RoundedSums {
  const float* partial;
  std::int64_t parts, count;
  bfloat16* to;

  template <int V>
  __device__ void run(std::int64_t i) const {
    Values<V> sum{};
    for (std::int64_t p = 0; p < parts; ++p) {
      const Values<V> part = load<V>(partial + p * count + i);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.at[k] += part.at[k];
    }
    store(to + i, sum);
  }
};

// ---- What is launched. So many blocks fill the largest GPUs: with fewer tokens, columns are divided as
// well. The numbers are the same on every GPU, and with them the bits of the results.

constexpr std::int64_t multiprocessors = 132;

template <int D>
int columns_each(std::int64_t tokens, int inner) {
  constexpr std::int64_t chunk = RowTiles<D>::chunk, least = 4;  // chunks
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
          .tokens = op.xa.dim(0),
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
  if (parts > 1)
    each(context.stream, RoundedSums{partial, parts, op.tokens * rank, to}, op.tokens * rank, rank);
}

template <class Operation>
bool tt_inner_fits(const Operation& op) {
  const std::int64_t rank_up = op.b_up.dim(0), inner = op.b_up.dim(1), rank_down = op.a_down.dim(1);
  const auto is_aligned = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.raw()) % 16 == 0;
  };
  return op.activation == Activation::gelu && op.xa.dim(0) > 0 && inner > 0 && inner <= 1 << 28 &&
         std::max(rank_up, rank_down) <= most_rank && rank_up % 8 == 0 && rank_down % 8 == 0 &&
         inner % 8 == 0 && is_aligned(op.xa) && is_aligned(op.b_up) && is_aligned(op.a_down) &&
         is_aligned(op.bias);
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

}  // namespace

void register_tt_inner(Backend& backend, bool /*tf32*/) {
  backend.set<TTInnerForward>(DType::bfloat16, tt_inner_forward, tt_inner_forward_scratch,
                              tt_inner_fits<TTInnerForward>);
}

}  // namespace comera::COMERA_CUDA
