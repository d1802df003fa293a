#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/products/bf16_operand.h"
#include "kernels/cpu/rows.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t piece_rows = 128;

struct Operands {
  Bf16Operand a;
  std::array<Bf16Operand, max_group_outputs> b;

  Operands(const TTLinearForward& op, Scratch& scratch) : a(op.a, false, scratch) {
    for (int i = 0; i < op.outputs; ++i) b[i] = Bf16Operand(op.output[i].b, false, scratch);
  }
  void pack(int outputs, int threads) const {
    a.pack(threads);
    for (int i = 0; i < outputs; ++i) b[i].pack(threads);
  }
};

// Thread-local: blocks of 32 rows.
struct Memory {
  bfloat16* rest;
  float* sums;

  Memory(const TTLinearForward& op, Scratch& scratch)
      : rest(scratch.narrow(bf16_block * whole_blocks(std::max(op.a.dim(0), op.a.dim(1))))),
        sums(scratch.floats(bf16_block * bf16_block)) {}
};

// Bias and activation of a block of sums.
template <Activation activation>
void finish(const float* sums, const float* bias, std::int64_t rows, std::int64_t columns, bfloat16* u,
            bfloat16* y, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for_columns(0, columns, [&](std::int64_t c, auto at) {
      vec value = at.load(sums + r * bf16_block + c);
      if (bias != nullptr) value += at.load(bias + c);
      at.store(u + r * width + c, value);
      if constexpr (activation != Activation::none) at.store(y + r * width + c, activated<activation>(value));
    });
  }
}

template <Activation activation>
void one_output(const TTLinearForward::Output& output, const Bf16Operand& b, const Bf16Rows& xa, float* sums,
                const Tensor& x, std::int64_t begin, std::int64_t rows) {
  const std::int64_t width = output.b.dim(1), inputs = x.dim(1);
  bfloat16* u = output.u.data<bfloat16>() + begin * width;
  bfloat16* y = activation == Activation::none ? nullptr : output.y.data<bfloat16>() + begin * width;
  for (std::int64_t j = 0; j < width; j += bf16_block) {
    bf16_multiply(xa, b.panel(j), sums, bf16_block, false);
    if (output.diagonal)
      for (std::int64_t i = j % inputs; i < inputs; i += width)  // once where there are more outputs
        add_diagonal(sums, bf16_block, output.diagonal.data<float>() + std::max(i, j),
                     x.data<bfloat16>() + begin * inputs + i, inputs, rows);
    bf16_fetch_to_write(u + j + bf16_block, width);
    if constexpr (activation != Activation::none) bf16_fetch_to_write(y + j + bf16_block, width);
    finish<activation>(sums, output.bias ? output.bias.data<float>() + j : nullptr, rows,
                       std::min(bf16_block, width - j), u + j, y == nullptr ? nullptr : y + j, width);
  }
}

void one_block(const TTLinearForward& op, const Operands& operands, const Memory& memory, std::int64_t begin,
               std::int64_t rows) {
  const std::int64_t inputs = op.a.dim(0), all = op.a.dim(1);
  const Bf16Rows x = bf16_rows(op.x.data<bfloat16>() + begin * inputs, inputs, rows, inputs, memory.rest);
  bfloat16* xa = op.xa.data<bfloat16>() + begin * all;
  for (std::int64_t j = 0; j < all; j += bf16_block) {
    bf16_multiply(x, operands.a.panel(j), memory.sums, bf16_block, false, all - j);
    bf16_store(memory.sums, bf16_block, rows, std::min(bf16_block, all - j), xa + j, all, false);
  }
  for (int i = 0; i < op.outputs; ++i) {
    const TTLinearForward::Output& output = op.output[i];
    const Bf16Rows left = bf16_rows(xa + output.column, all, rows, output.b.dim(0), memory.rest);
    for_activation(output.activation, [&]<Activation a>() {
      one_output<a>(output, operands.b[i], left, memory.sums, op.x, begin, rows);
    });
  }
}
}  // namespace

std::size_t bf16_tt_linear_forward_scratch(const TTLinearForward& op) {
  Scratch shared, thread;
  const Operands operands(op, shared);
  const Memory memory(op, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_tt_linear_forward(const TTLinearForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Operands operands(op, shared);
  operands.pack(op.outputs, threads);
  const std::size_t each = (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(threads);
  parallel_pieces((tokens + piece_rows - 1) / piece_rows, threads, [&](std::int64_t piece, int thread) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(thread));
    const Memory memory(op, own);
    const Bf16Tiles tiles;
    const std::int64_t end = std::min(tokens, (piece + 1) * piece_rows);
    for (std::int64_t begin = piece * piece_rows; begin < end; begin += bf16_block)
      one_block(op, operands, memory, begin, std::min(bf16_block, end - begin));
  });
}

COMERA_CPU_END
