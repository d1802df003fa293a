#include "kernels/cpu/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/tt_linear_parts.h"
#include "kernels/ops/tt_feed_forward.h"

COMERA_CPU_BEGIN

namespace {
struct Memory {
  float *a_up = nullptr, *b_up = nullptr, *a_down = nullptr, *b_down = nullptr;  // packed
  float* bias = nullptr;                                                         // of whole panels
  // Of each thread; x, xa and ha of a narrow type only.
  float* h = nullptr;  // a chunk
  float *x = nullptr, *xa = nullptr, *ha = nullptr;
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

// h of a tile into its panel.
template <Activation activation>
struct Activate {
  const float* bias;
  float* panel;

  template <int Rows>
  void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t, std::int64_t) const {
    for (int v = 0; v < panel_vectors; ++v) {
      const vec b = load(bias + v * lanes);
      for (int r = 0; r < Rows; ++r) {
        store(panel + (i + r) * panel_width + v * lanes, activated<activation>(tile.at[r][v] + b));
      }
    }
  }
};

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
  multiply_into(widened(op.x.data<T>() + begin * inputs, inputs, rows, inputs, memory.x + of_thread),
                memory.a_up, rows, rank_up, inputs, {xa, rank_up, Into::set});
  round_sums(xa_place, xa, rows * rank_up);
  for (std::int64_t c = 0; c < inner; c += chunk_columns) {
    const std::int64_t columns = std::min(chunk_columns, inner - c);
    for (std::int64_t j = 0; j < columns; j += panel_width) {
      multiply({xa, rank_up}, memory.b_up + (c + j) * rank_up, rows, panel_width, rank_up,
               Activate<activation>{memory.bias + c + j, h + j / panel_width * panel_apart});
    }
    multiply_chunk(h, memory.a_down + c * panel_width, inner, rows, columns, rank_down,
                   {ha, rank_down, c == 0 ? Into::set : Into::add});
  }
  round_sums(ha_place, ha, rows * rank_down);
  multiply_by_rows({ha, rank_down}, memory.b_down, rows, outputs, rank_down,
                   StoreTileAs<T>{op.y.data<T>() + begin * outputs, outputs, Into::set});
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
  parallel_pieces((tokens + block_rows - 1) / block_rows, threads, [&](std::int64_t block, int thread) {
    const std::int64_t begin = block * block_rows, rows = std::min(block_rows, tokens - begin);
    for_activation(op.activation, [&]<Activation a>() { one_block<T, a>(op, memory, begin, rows, thread); });
  });
}

COMERA_FOR_EACH_TYPE(TTFeedForwardForward, tt_feed_forward_forward)

COMERA_CPU_END
