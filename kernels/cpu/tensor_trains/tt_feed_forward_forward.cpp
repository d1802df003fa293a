#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tensor_trains/tt_linear_parts.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"

COMERA_CPU_BEGIN

namespace {
struct Memory {
  float *a_up = nullptr, *b_up = nullptr, *a_down = nullptr, *b_down = nullptr;  // packed
  float* bias = nullptr;                                                         // of whole panels
  // Per thread; x, xa and ha for a narrow type only.
  float* h = nullptr;  // a chunk
  float *x = nullptr, *xa = nullptr, *ha = nullptr;
  float* y_sums = nullptr;  // with a diagonal of down's
  std::int64_t thread_floats = 0;
};

Memory take(const TTFeedForwardForward& op, Scratch& scratch) {
  Memory memory;
  memory.a_up = scratch.floats(panels_size(op.a_up.dim(0), op.a_up.dim(1)));
  memory.b_up = scratch.floats(panels_size(op.b_up.dim(0), op.b_up.dim(1)));
  memory.a_down = scratch.floats(panels_size(op.a_down.dim(0), op.a_down.dim(1)));
  memory.b_down = scratch.floats(panels_size(op.b_down.dim(0), op.b_down.dim(1)));
  memory.bias = scratch.floats(panels_of(op.bias.elements()) * panel_width);
  const std::size_t before = scratch.bytes();
  memory.h = scratch.floats(panels_of(chunk_columns) * panel_apart);
  memory.x = scratch.floats(widened_size(op, block_rows, op.x.dim(1)));
  memory.xa = scratch.floats(widened_size(op, block_rows, op.a_up.dim(1)));
  memory.ha = scratch.floats(widened_size(op, block_rows, op.a_down.dim(1)));
  memory.y_sums = scratch.floats(op.diagonal_down ? block_rows * op.b_down.dim(1) : 0);
  memory.thread_floats = static_cast<std::int64_t>((scratch.bytes() - before) / sizeof(float));
  scratch.floats(memory.thread_floats * (thread_limit() - 1));
  return memory;
}

template <class T>
void pack_operands(const TTFeedForwardForward& op, const Memory& memory, int threads) {
  const std::pair<const Tensor*, float*> operands[] = {{&op.a_up, memory.a_up},
                                                       {&op.b_up, memory.b_up},
                                                       {&op.a_down, memory.a_down},
                                                       {&op.b_down, memory.b_down}};
  parallel_pieces(std::size(operands), threads, [&](std::int64_t i, int) {
    const Tensor& from = *operands[i].first;
    pack(from.data<T>(), from.dim(1), from.dim(0), from.dim(1), operands[i].second);
  });
  pack(op.bias.data<float>(), op.bias.elements(), 1, op.bias.elements(), memory.bias);
}

// Turns sums in a panel into h.
template <Activation activation>
void activate_panel(const float* bias, std::int64_t rows, float* panel) {
  for_biased_rows(panel, bias, rows, [&]<int Vectors>(std::int64_t r, vec(&u)[Vectors]) {
    activate<activation>(u);
    for (int k = 0; k < Vectors; ++k) store(panel + r * panel_width + k * lanes, u[k]);
  });
}

template <class T, Activation activation>
void one_block(const TTFeedForwardForward& op, const Memory& memory, std::int64_t begin, std::int64_t rows,
               int thread) {
  const std::int64_t inputs = op.x.dim(1), inner = op.b_up.dim(1), outputs = op.b_down.dim(1);
  const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
  const std::int64_t of_thread = thread * memory.thread_floats;
  T *xa_place = op.xa.data<T>() + begin * rank_up, *ha_place = op.ha.data<T>() + begin * rank_down;
  float* xa = summed_in(xa_place, memory.xa + of_thread);
  float* ha = summed_in(ha_place, memory.ha + of_thread);
  float* h = memory.h + of_thread;
  const T* x = op.x.data<T>() + begin * inputs;
  const float *d_up = op.diagonal_up ? op.diagonal_up.data<float>() : nullptr,
              *d_down = op.diagonal_down ? op.diagonal_down.data<float>() : nullptr;
  float* y_sums = memory.y_sums + of_thread;
  if (d_down != nullptr) std::fill_n(y_sums, rows * outputs, 0.F);
  multiply_into(widened(op.x.data<T>() + begin * inputs, inputs, rows, inputs, memory.x + of_thread),
                memory.a_up, rows, rank_up, inputs, {xa, rank_up, Into::set});
  round_sums(xa_place, xa, rows * rank_up);
  for (std::int64_t c = 0; c < inner; c += chunk_columns) {
    const std::int64_t columns = std::min(chunk_columns, inner - c);
    for (std::int64_t j = 0; j < columns; j += panel_width) {
      float* panel = h + j / panel_width * panel_apart;
      multiply_panel({xa, rank_up}, memory.b_up + (c + j) * rank_up, rows, rank_up, panel, Into::set);
      const std::int64_t at = c + j;
      if (d_up != nullptr) add_diagonal(panel, panel_width, d_up + at, x + at % inputs, inputs, rows);
      activate_panel<activation>(memory.bias + at, rows, panel);
      if (d_down != nullptr)
        add_diagonal(y_sums + at % outputs, outputs, d_down + at, panel, panel_width, rows);
    }
    multiply_chunk(h, memory.a_down + c * panel_width, inner, rows, columns, rank_down,
                   {ha, rank_down, c == 0 ? Into::set : Into::add});
  }
  round_sums(ha_place, ha, rows * rank_down);
  T* y = op.y.data<T>() + begin * outputs;
  if (d_down == nullptr) {
    multiply_by_rows({ha, rank_down}, memory.b_down, rows, outputs, rank_down,
                     StoreTileAs<T>{y, outputs, Into::set});
  } else {
    multiply_by_rows({ha, rank_down}, memory.b_down, rows, outputs, rank_down,
                     StoreTile{y_sums, outputs, Into::add});
    copy_rows(y_sums, outputs, rows, outputs, y, outputs);
  }
}
}  // namespace

std::size_t tt_feed_forward_forward_scratch(const TTFeedForwardForward& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <class T>
void tt_feed_forward_forward(const TTFeedForwardForward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  Scratch scratch(context.scratch);
  const Memory memory = take(op, scratch);
  const int threads = thread_limit();
  pack_operands<T>(op, memory, threads);
  const std::int64_t each = rows_of_piece(tokens, tile_rows, block_rows, threads);
  parallel_pieces((tokens + each - 1) / each, threads, [&](std::int64_t piece, int thread) {
    const std::int64_t begin = piece * each, rows = std::min(each, tokens - begin);
    for_activation(op.activation, [&]<Activation a>() { one_block<T, a>(op, memory, begin, rows, thread); });
  });
}

COMERA_FOR_EACH_TYPE(TTFeedForwardForward, tt_feed_forward_forward)

COMERA_CPU_END
