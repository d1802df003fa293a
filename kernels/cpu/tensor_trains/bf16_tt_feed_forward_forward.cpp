#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/products/bf16_operand.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t piece_rows = 128;
constexpr std::int64_t chunk_columns = 512;  // of the inner tensor, which stay in the L2 cache

struct Operands {
  Bf16Operand a_up, b_up, a_down, b_down;
  float* bias = nullptr;  // of whole blocks

  Operands(const TTFeedForwardForward& op, Scratch& scratch)
      : a_up(op.a_up, false, scratch),
        b_up(op.b_up, false, scratch),
        a_down(op.a_down, false, scratch),
        b_down(op.b_down, false, scratch),
        bias(scratch.floats(whole_blocks(op.bias.elements()))) {}

  void pack(const TTFeedForwardForward& op, int threads) const {
    for (const Bf16Operand* operand : {&a_up, &b_up, &a_down, &b_down}) operand->pack(threads);
    const std::int64_t inner = op.bias.elements();
    std::copy_n(op.bias.data<float>(), inner, bias);
    std::fill(bias + inner, bias + whole_blocks(inner), 0.F);
  }
};

// Thread-local: blocks of 32 rows.
struct Memory {
  bfloat16* rest;
  Bf16Block xa, h, ha;
  float *sums, *ha_sums;
  float* y_sums;  // with a diagonal of down's

  Memory(const TTFeedForwardForward& op, Scratch& scratch)
      : rest(scratch.narrow(bf16_block * whole_blocks(op.x.dim(1)))),
        xa(bf16_block, op.a_up.dim(1), scratch),
        h(bf16_block, chunk_columns, scratch),
        ha(bf16_block, op.a_down.dim(1), scratch),
        sums(scratch.floats(bf16_block * bf16_block)),
        ha_sums(scratch.floats(bf16_block * whole_blocks(op.a_down.dim(1)))),
        y_sums(op.diagonal_down ? scratch.floats(bf16_block * op.b_down.dim(1)) : nullptr) {}
};

static_assert(bf16_block == 2 * lanes);  // required by for_biased_rows

template <Activation activation>
void activate_block(const float* sums, const float* bias, bfloat16* h, std::int64_t ld) {
  for_biased_rows(sums, bias, bf16_block, [&]<int Vectors>(std::int64_t r, vec(&u)[Vectors]) {
    activate<activation>(u);
    for (int k = 0; k < Vectors; ++k) store(h + (r + k / 2) * ld + k % 2 * lanes, u[k]);
  });
}

// Writes the result for up to 32 rows of A to c and, as a left operand of the next product, to `next`.
void keep(const float* sums, std::int64_t ld, std::int64_t rows, std::int64_t j, std::int64_t n, bfloat16* c,
          const Bf16Block& next) {
  bf16_store(sums, ld, rows, std::min(bf16_block, n - j), c + j, n, false);
  bf16_store(sums, ld, bf16_block, bf16_block, next.at + j, next.ld, false);
}

template <Activation activation>
void one_block(const TTFeedForwardForward& op, const Operands& operands, const Memory& memory,
               std::int64_t begin, std::int64_t rows) {
  const std::int64_t inputs = op.x.dim(1), inner = op.b_up.dim(1), outputs = op.b_down.dim(1);
  const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
  const Bf16Rows x = bf16_rows(op.x.data<bfloat16>() + begin * inputs, inputs, rows, inputs, memory.rest);
  for (std::int64_t j = 0; j < rank_up; j += bf16_block) {
    bf16_multiply(x, operands.a_up.panel(j), memory.sums, bf16_block, false, rank_up - j);
    keep(memory.sums, bf16_block, rows, j, rank_up, op.xa.data<bfloat16>() + begin * rank_up, memory.xa);
  }
  const float *d_up = op.diagonal_up ? op.diagonal_up.data<float>() : nullptr,
              *d_down = op.diagonal_down ? op.diagonal_down.data<float>() : nullptr;
  if (d_down != nullptr) std::fill_n(memory.y_sums, bf16_block * outputs, 0.F);
  const std::int64_t ha_apart = whole_blocks(rank_down);
  for (std::int64_t c = 0; c < inner; c += chunk_columns) {
    const std::int64_t columns = std::min(chunk_columns, whole_blocks(inner - c));
    for (std::int64_t j = 0; j < columns; j += bf16_block) {
      bf16_multiply(memory.xa.rows(0), operands.b_up.panel(c + j), memory.sums, bf16_block, false);
      if (d_up != nullptr)
        add_diagonal(memory.sums, bf16_block, d_up + c + j,
                     op.x.data<bfloat16>() + begin * inputs + (c + j) % inputs, inputs, rows);
      activate_block<activation>(memory.sums, operands.bias + c + j, memory.h.at + j, memory.h.ld);
      if (d_down != nullptr)
        add_diagonal(memory.y_sums + (c + j) % outputs, outputs, d_down + c + j, memory.h.at + j, memory.h.ld,
                     bf16_block);
    }
    for (std::int64_t j = 0; j < rank_down; j += bf16_block)
      bf16_multiply({memory.h.at, memory.h.ld, columns / bf16_block}, operands.a_down.panel(j, c),
                    memory.ha_sums + j, ha_apart, c > 0, rank_down - j);
  }
  for (std::int64_t j = 0; j < rank_down; j += bf16_block)
    keep(memory.ha_sums + j, ha_apart, rows, j, rank_down, op.ha.data<bfloat16>() + begin * rank_down,
         memory.ha);
  bfloat16* y = op.y.data<bfloat16>() + begin * outputs;
  float* sums = d_down != nullptr ? memory.y_sums : memory.sums;
  const std::int64_t apart = d_down != nullptr ? outputs : bf16_block;
  for (std::int64_t j = 0; j < outputs; j += bf16_block, sums += d_down != nullptr ? bf16_block : 0) {
    bf16_multiply(memory.ha.rows(0), operands.b_down.panel(j), sums, apart, d_down != nullptr);
    bf16_store_far(sums, rows, std::min(bf16_block, outputs - j), y + j, outputs, false, apart);
  }
}

void one_block(const TTFeedForwardForward& op, const Operands& operands, const Memory& memory,
               std::int64_t begin, std::int64_t rows) {
  for_activation(op.activation, [&]<Activation a>() { one_block<a>(op, operands, memory, begin, rows); });
}
}  // namespace

std::size_t bf16_tt_feed_forward_forward_scratch(const TTFeedForwardForward& op) {
  Scratch shared, thread;
  const Operands operands(op, shared);
  const Memory memory(op, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_tt_feed_forward_forward(const TTFeedForwardForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Operands operands(op, shared);
  operands.pack(op, threads);
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
