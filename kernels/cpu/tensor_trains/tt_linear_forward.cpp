#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/widened.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

COMERA_CPU_BEGIN

namespace {
// Tokens are processed in blocks whose x, xa and part of u stay in the L2 cache.
constexpr std::int64_t block_rows = 120;  // a multiple of every tile_rows

struct Packed {
  float* a = nullptr;
  std::array<float*, max_group_outputs> b{};
  // Per thread; for a narrow type only.
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
  const float* diagonal;  // or nullptr; of the rows x
  const T* x;
  std::int64_t inputs;

  template <int Rows>
  inline __attribute__((always_inline)) void fetch(std::int64_t i, std::int64_t j) const {
    fetch_to_write<Rows>(u + i * width + j, width);
    if constexpr (activation != Activation::none) fetch_to_write<Rows>(y + i * width + j, width);
  }
  template <int Rows>
  inline __attribute__((always_inline)) void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t j,
                                                        std::int64_t columns) const {
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) {
      const std::int64_t left = std::clamp<std::int64_t>(columns - v * lanes, 0, lanes);
      const vec b = bias == nullptr ? splat(0) : load_first(bias + j + v * lanes, left);
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) tile.at[r][v] += b;
    }
    if (diagonal != nullptr) add_diagonal_to(tile, i, j);
    if constexpr (activation == Activation::none) {
      StoreTileAs<T>{u, width, Into::set}(tile, i, j, columns);
    } else {
      alignas(64) float values[Rows * panel_width];
      StoreTile{values, panel_width, Into::set}(tile, 0, 0, panel_width);
      activate_rows(values, Rows, i * width + j, columns);
    }
  }

 private:
  template <int Rows>
  inline __attribute__((always_inline)) void add_diagonal_to(Tile<Rows>& tile, std::int64_t i,
                                                             std::int64_t j) const {
    for (std::int64_t k = j % inputs; k < inputs; k += width) {  // once where there are more outputs
      const float* d = diagonal + std::max(k, j);
#pragma GCC unroll 2
      for (int v = 0; v < panel_vectors; ++v)
#pragma GCC unroll 12
        for (int r = 0; r < Rows; ++r)
          tile.at[r][v] += load(d + v * lanes) * load(x + (i + r) * inputs + k + v * lanes);
    }
  }
  void activate_rows(const float* values, int rows, std::int64_t at, std::int64_t columns) const {
    for (int r = 0; r < rows; ++r, values += panel_width, at += width) {
      for_columns(0, columns, [&](std::int64_t c, auto some) {
        const vec value = load(values + c);
        some.store(u + at + c, value);
        some.store(y + at + c, activated<activation>(value));
      });
    }
  }
};

template <class T, Activation activation>
void one_output(const TTLinearForward::Output& output, const Tensor& x, const Left& xa, const float* b,
                std::int64_t begin, std::int64_t rows) {
  const std::int64_t rank = output.b.dim(0), width = output.b.dim(1);
  const float* bias = output.bias ? output.bias.data<float>() : nullptr;
  T* u = output.u.data<T>() + begin * width;
  T* y = activation == Activation::none ? nullptr : output.y.data<T>() + begin * width;
  const float* diagonal = output.diagonal ? output.diagonal.data<float>() : nullptr;
  multiply_by_rows(
      xa.from(0, output.column), b, rows, width, rank,
      FinishOutput<T, activation>{bias, u, y, width, diagonal, x.data<T>() + begin * x.dim(1), x.dim(1)});
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
  const std::int64_t each = rows_of_piece(tokens, tile_rows, block_rows, threads);
  parallel_pieces((tokens + each - 1) / each, threads, [&](std::int64_t piece, int thread) {
    const std::int64_t begin = piece * each, rows = std::min(each, tokens - begin);
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
        one_output<T, a>(output, op.x, {sums, all}, packed.b[i], begin, rows);
      });
    }
  });
}

COMERA_FOR_EACH_TYPE(TTLinearForward, tt_linear_forward)

COMERA_CPU_END
