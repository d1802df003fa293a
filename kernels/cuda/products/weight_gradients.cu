// Gradients of weights and biases in bfloat16, those of several layers in one launch: sums over tokens for
// matrices with one narrow side. A block has a tile of one of them and some of the tokens; a second launch
// adds the sums over parts of the tokens, in a fixed order.

#include "kernels/ops/products/weight_gradients.h"

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/products/copied_tiles.h"
#include "kernels/cuda/products/grouped.h"
#include "kernels/cuda/products/part_sums.h"
#include "kernels/cuda/products/tensor_cores.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/backend.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int tile = 64;         // rows and columns of dw per block
constexpr int warp_tile = 32;    // and per warp, of four
constexpr int tile_tokens = 32;  // in shared memory at a time
constexpr int stride = tile + 8;
constexpr int threads = 4 * warp;
constexpr int elements = tile_tokens * stride;
constexpr std::size_t shared_bytes = 4 * elements * sizeof(bfloat16);  // two stages of x and dy

struct Gradient {
  const bfloat16 *x, *dy;
  float *dw, *dbias;
  float* partial;  // (parts, rows of sums, outputs); null: the sums are added to dw and dbias
  int tokens, inputs, outputs;
  int ldx, lddy, lddw;
  int across, tiles;       // tiles in a row, and in all
  int parts, tokens_each;  // per part

  // The bias's row follows those of the weight.
  __host__ __device__ int rows() const { return inputs + (dbias != nullptr ? 1 : 0); }
  __host__ __device__ std::int64_t sums() const { return std::int64_t{rows()} * outputs; }
};

// Stores two neighbouring elements of a row of sums.
__device__ __forceinline__ void give(const Gradient& op, int part, int row, int column, float first,
                                     float second) {
  if (op.partial != nullptr)
    return store(op.partial + part * op.sums() + std::int64_t{row} * op.outputs + column,
                 Values<2>{{first, second}});
  float* to = (row < op.inputs ? op.dw + std::int64_t{row} * op.lddw : op.dbias) + column;
  to[0] += first;
  to[1] += second;
}

template <int most>
__global__ void __launch_bounds__(threads, 5)
    weight_gradients_kernel(const Grouped<Gradient, most> __grid_constant__ gradients) {
  const auto [op, block] = piece_of_block(gradients);
  auto* shared = shared_array<bfloat16>(4 * elements);
  const int part = block / op.tiles, own_tile = block % op.tiles;
  const int first_input = own_tile / op.across * tile, first_output = own_tile % op.across * tile;
  const int begin = part * op.tokens_each, end = min(begin + op.tokens_each, op.tokens);
  const int thread = static_cast<int>(threadIdx.x);

  AsyncCopies copies;
  CopiedTiles<tile_tokens, tile, stride, threads, bfloat16> x_tiles(
      thread, op.x + std::int64_t{begin} * op.ldx + first_input, op.ldx),
      dy_tiles(thread, op.dy + std::int64_t{begin} * op.lddy + first_output, op.lddy);
  const auto copy = [&](int stage, int token) {
    bfloat16* x = shared + 2 * stage * elements;
    x_tiles.copy(copies, thread, x, end - token, op.inputs - first_input, tile_tokens * op.ldx);
    dy_tiles.copy(copies, thread, x + elements, end - token, op.outputs - first_output,
                  tile_tokens * op.lddy);
  };
  copy(0, begin);

  const int own_input = warp_of_thread() / 2 * warp_tile, own_output = warp_of_thread() % 2 * warp_tile;
  const bool has_sums = first_input + own_input < op.inputs && first_output + own_output < op.outputs;
  const bool has_bias = op.dbias != nullptr && first_input + own_input == 0;
  constexpr unsigned two_ones = 0x3f803f80u;
  const BF16::A ones{{two_ones, two_ones, two_ones, two_ones}};
  TileC dw[2][4] = {}, dbias[4] = {};
  int stage = 0;
  for (int first = begin; first < end; first += tile_tokens, stage ^= 1) {
    copies.wait();
    __syncthreads();  // this stage has arrived, and all warps are done with the other one
    if (first + tile_tokens < end) copy(stage ^ 1, first + tile_tokens);
    if (!has_sums) continue;
    const bfloat16* x = shared + 2 * stage * elements + own_input;
    const bfloat16* dy = shared + (2 * stage + 1) * elements + own_output;
#pragma unroll
    for (int token = 0; token < tile_tokens; token += 16) {
      const BF16::A a[2] = {load_a_of_columns(x + token * stride, stride),
                            load_a_of_columns(x + token * stride + 16, stride)};
      each_b_of_columns<BF16, 4>(dy + token * stride, stride, [&](int n, const BF16::B& b) {
#pragma unroll
        for (int r = 0; r < 2; ++r) BF16::multiply(dw[r][n], a[r], b);
        if (has_bias) BF16::multiply(dbias[n], ones, b);
      });
    }
  }

  if (!has_sums) return;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int column = first_output + own_output + 8 * n + fragment_column();
    if (column >= op.outputs) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_input + own_input + 16 * r + 8 * half + fragment_row();
        if (row < op.inputs) give(op, part, row, column, dw[r][n].at[2 * half], dw[r][n].at[2 * half + 1]);
      }
    if (has_bias && fragment_row() == 0) give(op, part, op.inputs, column, dbias[n].at[0], dbias[n].at[1]);
  }
}

// The number of blocks that fills the largest GPUs. It is the same on every GPU: the bits of the results
// depend only on a call's arguments.
constexpr std::int64_t blocks_wanted = std::int64_t{5} * 132;
constexpr std::int64_t least_tokens = 256;  // per part

std::vector<Gradient> plan(const WeightGradients& op, std::byte* scratch, std::size_t& scratch_bytes) {
  const auto tiles_of = [](std::int64_t size) { return blocks_for(size, tile); };
  std::int64_t all_tiles = 0;
  for (const WeightGradient& one : op.gradients) all_tiles += tiles_of(one.inputs) * tiles_of(one.outputs);
  std::vector<Gradient> gradients;
  scratch_bytes = 0;
  for (const WeightGradient& one : op.gradients) {
    if (one.rows == 0) continue;
    const std::int64_t parts =
        std::clamp<std::int64_t>(blocks_wanted / all_tiles, 1, blocks_for(one.rows, least_tokens));
    const auto apart = [](std::int64_t given, std::int64_t columns) {
      return static_cast<int>(given != 0 ? given : columns);
    };
    Gradient gradient{.x = one.x.data<bfloat16>(),
                      .dy = one.dy.data<bfloat16>(),
                      .dw = one.dw.data<float>(),
                      .dbias = one.dbias ? one.dbias.data<float>() : nullptr,
                      .partial = nullptr,
                      .tokens = static_cast<int>(one.rows),
                      .inputs = static_cast<int>(one.inputs),
                      .outputs = static_cast<int>(one.outputs),
                      .ldx = apart(one.ldx, one.inputs),
                      .lddy = apart(one.lddy, one.outputs),
                      .lddw = apart(one.lddw, one.outputs),
                      .across = static_cast<int>(tiles_of(one.outputs)),
                      .tiles = static_cast<int>(tiles_of(one.inputs) * tiles_of(one.outputs)),
                      .parts = 1,
                      .tokens_each = 0};
    gradient.tokens_each =
        static_cast<int>(blocks_for(blocks_for(one.rows, parts), tile_tokens) * tile_tokens);
    gradient.parts = static_cast<int>(blocks_for(one.rows, gradient.tokens_each));
    if (gradient.parts > 1) {
      gradient.partial =  // scratch that is only counted has an offset instead of an address
          reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(scratch) + scratch_bytes);
      scratch_bytes += static_cast<std::size_t>(gradient.parts * gradient.sums()) * sizeof(float);
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

// Others use the fallback decomposition. Rows are copied 16 bytes at a time, and sums are added in the same
// units.
bool weight_gradients_fit(const WeightGradients& op) {
  constexpr std::int64_t most = 1 << 24;  // of rows and columns, so that the product of two sizes fits an int
  const auto whole = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.raw()) % 16 == 0;
  };
  const bool sums = std::ranges::all_of(op.sums, [&](const PartialSums& one) {
    const std::int64_t columns = one.to.elements();
    return columns % 4 == 0 && columns <= most && one.count <= most && one.apart % 4 == 0 &&
           whole(one.parts) && whole(one.to);
  });
  return sums && std::ranges::all_of(op.gradients, [&](const WeightGradient& one) {
           const bool sizes = std::max({one.inputs, one.outputs, one.ldx, one.lddy, one.lddw}) <= most &&
                              one.rows <= 1 << 30;
           const bool rows = one.inputs > 0 && one.outputs > 0 && one.inputs % 8 == 0 &&
                             one.outputs % 8 == 0 && one.ldx % 8 == 0 && one.lddy % 8 == 0 &&
                             one.lddw % 4 == 0;
           return sizes && rows && whole(one.x) && whole(one.dy) && whole(one.dw) &&
                  (!one.dbias || whole(one.dbias));
         });
}

std::size_t weight_gradients_scratch(const WeightGradients& op) {
  std::size_t bytes = 0;
  plan(op, nullptr, bytes);
  return bytes;
}

void weight_gradients(const WeightGradients& op, const KernelContext& context) {
  std::size_t bytes = 0;
  std::vector<Gradient> gradients = plan(op, context.scratch, bytes);
  launch_grouped(
      gradients, [](const Gradient& gradient) { return std::int64_t{gradient.tiles} * gradient.parts; },
      [&]<int most>(const Grouped<Gradient, most>& some, std::int64_t blocks) {
        COMERA_LAUNCH(context.stream, (LaunchShape{{blocks}, threads, shared_bytes}),
                      weight_gradients_kernel<most>, some);
      });
  std::vector<PartSums> sums;
  for (const Gradient& gradient : gradients) {
    if (gradient.parts == 1) continue;
    sums.push_back({.parts = gradient.partial,
                    .apart = gradient.sums(),
                    .to = gradient.dw,
                    .count = gradient.parts,
                    .rows = gradient.inputs,
                    .columns = gradient.outputs,
                    .to_apart = gradient.lddw});
    if (gradient.dbias == nullptr) continue;
    sums.push_back(sums.back());
    sums.back().parts += std::int64_t{gradient.inputs} * gradient.outputs;
    sums.back().to = gradient.dbias;
    sums.back().rows = 1;
  }
  for (const PartialSums& one : op.sums)
    sums.push_back({.parts = one.parts.data<float>(),
                    .apart = one.apart,
                    .to = one.to.data<float>(),
                    .count = static_cast<int>(one.count),
                    .columns = static_cast<int>(one.to.elements())});
  add_part_sums(context.stream, sums);
}

}  // namespace

void register_weight_gradients(Backend& backend, bool /*tf32*/) {
  backend.set<WeightGradients>(DType::bfloat16, weight_gradients, weight_gradients_scratch,
                               weight_gradients_fit);
}

}  // namespace comera::COMERA_CUDA
