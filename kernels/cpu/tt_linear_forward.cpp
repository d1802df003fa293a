#include "kernels/cpu/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"
#include "kernels/ops/tt_linear.h"

COMERA_CPU_BEGIN

namespace {
// Tokens are taken in blocks whose x, xa and part of u stay in the second cache.
constexpr std::int64_t block_rows = 120;  // a multiple of every tile_rows

struct Packed {
  float* a = nullptr;
  std::array<float*, max_group_outputs> b{};
  // Of each thread; of a narrow type only.
  float *x = nullptr, *xa = nullptr;
  std::int64_t thread_floats = 0;
};

Packed take(const TTLinearForward& op, Scratch& scratch) {
  Packed packed;
  packed.a = scratch.floats(panels_size(op.a.dim(0), op.a.dim(1)));
  for (int i = 0; i < op.outputs; ++i) {
    packed.b[i] = scratch.floats(panels_size(op.output[i].b.dim(0), op.output[i].b.dim(1)));
  }
  const std::size_t before = scratch.bytes();
  packed.x = scratch.floats(widened_size(op, block_rows, op.a.dim(0)));
  packed.xa = scratch.floats(widened_size(op, block_rows, op.a.dim(1)));
  packed.thread_floats = static_cast<std::int64_t>((scratch.bytes() - before) / sizeof(float));
  scratch.floats(packed.thread_floats * (thread_limit() - 1));
  return packed;
}

// Bias and activation of a tile while it is in registers.
template <class T, Activation activation>
struct FinishOutput {
  const float* bias;  // or nullptr
  T* u;
  T* y;
  std::int64_t width;

  template <int Rows>
  inline __attribute__((always_inline)) void fetch(std::int64_t i, std::int64_t j) const {
    fetch_to_write<Rows>(u + i * width + j, width);
    if constexpr (activation != Activation::none) fetch_to_write<Rows>(y + i * width + j, width);
  }
  template <int Rows>
  void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j, std::int64_t columns) const {
    if (columns == panel_width) return whole(tile, i * width + j, j);
    for (int v = 0; v < panel_vectors; ++v) {
      const std::int64_t left = std::min<std::int64_t>(lanes, columns - v * lanes);
      if (left <= 0) return;
      const vec b = bias == nullptr ? splat(0) : load_first(bias + j + v * lanes, left);
      for (int r = 0; r < Rows; ++r) {
        const std::int64_t at = (i + r) * width + j + v * lanes;
        const vec value = tile.at[r][v] + b;
        store_first(u + at, value, left);
        if constexpr (activation != Activation::none) store_first(y + at, activated<activation>(value), left);
      }
    }
  }

  // Row by row, so that each cache line of u and y is written in one go.
  template <int Rows>
  void whole(Tile<Rows>& tile, std::int64_t at, std::int64_t j) const {
    for (int v = 0; v < panel_vectors; ++v) {
      const vec b = bias == nullptr ? splat(0) : load(bias + j + v * lanes);
      for (int r = 0; r < Rows; ++r) tile.at[r][v] += b;
    }
    for (int r = 0; r < Rows; ++r, at += width) {
      for (int v = 0; v < panel_vectors; ++v) store(u + at + v * lanes, tile.at[r][v]);
      if constexpr (activation != Activation::none) {
        vec value[panel_vectors];
        for (int v = 0; v < panel_vectors; ++v) value[v] = activated<activation>(tile.at[r][v]);
        for (int v = 0; v < panel_vectors; ++v) store(y + at + v * lanes, value[v]);
      }
    }
  }
};

template <class T, Activation activation>
void one_output(const TTLinearForward::Output& output, const Left& xa, const float* b, std::int64_t begin,
                std::int64_t rows) {
  const std::int64_t rank = output.b.dim(0), width = output.b.dim(1);
  const float* bias = output.bias ? output.bias.data<float>() : nullptr;
  T* u = output.u.data<T>() + begin * width;
  T* y = activation == Activation::none ? nullptr : output.y.data<T>() + begin * width;
  multiply_by_rows(xa.from(0, output.column), b, rows, width, rank,
                   FinishOutput<T, activation>{bias, u, y, width});
}
}  // namespace

std::size_t tt_linear_forward_scratch(const TTLinearForward& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <class T>
void tt_linear_forward(const TTLinearForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.a.dim(0), all = op.a.dim(1);
  Scratch scratch(context.scratch);
  const Packed packed = take(op, scratch);
  const int threads = thread_limit();
  parallel_pieces(op.outputs + 1, threads, [&](std::int64_t i, int) {
    const Tensor& from = i == 0 ? op.a : op.output[i - 1].b;
    pack(from.data<T>(), from.dim(1), from.dim(0), from.dim(1), i == 0 ? packed.a : packed.b[i - 1]);
  });
  parallel_pieces((tokens + block_rows - 1) / block_rows, threads, [&](std::int64_t block, int thread) {
    const std::int64_t begin = block * block_rows, rows = std::min(block_rows, tokens - begin);
    float *wide_x = packed.x + thread * packed.thread_floats,
          *wide_xa = packed.xa + thread * packed.thread_floats;
    T* xa = op.xa.data<T>() + begin * all;
    float* sums = summed_in(xa, wide_xa);
    multiply_into(widened(op.x.data<T>() + begin * inputs, inputs, rows, inputs, wide_x), packed.a, rows, all,
                  inputs, {sums, all, Into::set});
    round_sums(xa, sums, rows * all);
    for (int i = 0; i < op.outputs; ++i) {
      const TTLinearForward::Output& output = op.output[i];
      for_activation(output.activation, [&]<Activation a>() {
        one_output<T, a>(output, {sums, all}, packed.b[i], begin, rows);
      });
    }
  });
}

COMERA_FOR_EACH_TYPE(TTLinearForward, tt_linear_forward)

COMERA_CPU_END
