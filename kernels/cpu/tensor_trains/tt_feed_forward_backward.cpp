#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tensor_trains/tt_linear_parts.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"

COMERA_CPU_BEGIN

namespace {
// Per group; the sums of da_up and da_down are transposed.
struct Sums {
  WeightSums da_up, db_up, da_down, db_down;
  float* dbias = nullptr;
  float *dd_up = nullptr, *dd_down = nullptr;  // of diagonals

  Sums() = default;
  Sums(const TTFeedForwardBackward& op, Scratch& scratch)
      : da_up(op.a_up.dim(1), op.a_up.dim(0), scratch),
        db_up(op.b_up.dim(0), op.b_up.dim(1), scratch),
        da_down(op.a_down.dim(1), op.a_down.dim(0), scratch),
        db_down(op.b_down.dim(0), op.b_down.dim(1), scratch),
        dbias(scratch.floats(panels_of(op.bias.elements()) * panel_width)),
        dd_up(op.diagonal_up ? scratch.floats(op.diagonal_up.elements()) : nullptr),
        dd_down(op.diagonal_down ? scratch.floats(op.diagonal_down.elements()) : nullptr) {}
};

struct Memory {
  float* b_up = nullptr;  // packed
  float *a_up_across = nullptr, *b_up_across = nullptr, *a_down_across = nullptr, *b_down_across = nullptr;
  float* bias = nullptr;  // of whole panels
  std::array<Sums, groups_most> sums{};
  // per thread
  float *h = nullptr, *du = nullptr;  // chunks; du also serves dy
  float *dxa = nullptr, *dha = nullptr, *x = nullptr;
  float *xa = nullptr, *ha = nullptr;  // for a narrow type only
  float* dx_sums = nullptr;            // with a diagonal of up's
  std::int64_t thread_floats = 0;
};

Memory take(const TTFeedForwardBackward& op, Scratch& scratch) {
  const std::int64_t inputs = op.x.dim(1), inner = op.b_up.dim(1), outputs = op.b_down.dim(1);
  const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
  const std::int64_t whole_inner = panels_of(inner) * panel_width;
  Memory memory;
  memory.b_up = scratch.floats(panels_size(rank_up, inner));
  memory.a_up_across = scratch.floats(panels_size(rank_up, inputs));
  memory.b_up_across = scratch.floats(panels_size(inner, rank_up));
  memory.a_down_across = scratch.floats(panels_size(rank_down, inner));
  memory.b_down_across = scratch.floats(panels_size(outputs, rank_down));
  memory.bias = scratch.floats(whole_inner);
  for (std::int64_t g = 0; g < group_count(op.x.dim(0)); ++g) memory.sums[g] = Sums(op, scratch);
  const std::size_t before = scratch.bytes();
  memory.h = scratch.floats(panels_of(chunk_columns) * panel_apart);
  memory.du = scratch.floats(panels_of(chunk_columns) * panel_apart);
  memory.dxa = scratch.floats(block_rows * rank_up);
  memory.dha = scratch.floats(block_rows * rank_down);
  memory.x = scratch.floats(block_rows * panel_width);
  memory.xa = scratch.floats(widened_size(op, block_rows, rank_up));
  memory.ha = scratch.floats(widened_size(op, block_rows, rank_down));
  memory.dx_sums = scratch.floats(op.diagonal_up ? block_rows * inputs : 0);
  memory.thread_floats = static_cast<std::int64_t>((scratch.bytes() - before) / sizeof(float));
  scratch.floats(memory.thread_floats * (thread_limit() - 1));
  return memory;
}

template <class T>
void pack_operands(const TTFeedForwardBackward& op, const Memory& memory, int threads) {
  const std::pair<const Tensor*, float*> operands[] = {{&op.a_up, memory.a_up_across},
                                                       {&op.b_up, memory.b_up_across},
                                                       {&op.a_down, memory.a_down_across},
                                                       {&op.b_down, memory.b_down_across}};
  parallel_pieces(std::size(operands) + 1, threads, [&](std::int64_t i, int) {
    if (i == std::size(operands)) {
      return pack(op.b_up.data<T>(), op.b_up.dim(1), op.b_up.dim(0), op.b_up.dim(1), memory.b_up);
    }
    const Tensor& from = *operands[i].first;
    pack_transposed(from.data<T>(), from.dim(1), from.dim(1), from.dim(0), operands[i].second);
  });
  pack(op.bias.data<float>(), op.bias.elements(), 1, op.bias.elements(), memory.bias);
}

// Turns sums in the panel of h into h, and writes activation' to the other panel.
template <Activation activation>
void activate_panel(const float* bias, std::int64_t rows, float* h, float* slopes) {
  for_biased_rows(h, bias, rows, [&]<int Vectors>(std::int64_t r, vec(&u)[Vectors]) {
    vec slope[Vectors];
    activate_with_slope<activation>(u, slope);
    for (int k = 0; k < Vectors; ++k) {
      store(h + r * panel_width + k * lanes, u[k]);
      store(slopes + r * panel_width + k * lanes, slope[k]);
    }
  });
}

// du = dh activation' of a tile, in place of the slopes, and its column sums.
template <class T>
struct TimesSlope {
  float* du;
  float* dbias;
  const float* diagonal;  // down's, or nullptr: dh has also what it passes back from dy
  const T* dy;
  std::int64_t outputs;

  template <int Rows>
  inline __attribute__((always_inline)) void operator()(Tile<Rows>& tile, std::int64_t i, std::int64_t,
                                                        std::int64_t) const {
#pragma GCC unroll 2
    for (int v = 0; v < panel_vectors; ++v) {
      vec total = load(dbias + v * lanes);
      if (diagonal != nullptr) {
        const vec d = load(diagonal + v * lanes);
#pragma GCC unroll 12
        for (int r = 0; r < Rows; ++r) tile.at[r][v] += d * load(dy + (i + r) * outputs + v * lanes);
      }
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        float* at = du + (i + r) * panel_width + v * lanes;
        const vec value = tile.at[r][v] * load(at);
        store(at, value);
        total += value;
      }
      store(dbias + v * lanes, total);
    }
  }
};

template <class T>
class Block {
 public:
  Block(const TTFeedForwardBackward& op, const Memory& memory, const Sums& sums, int thread,
        std::int64_t begin, std::int64_t rows, bool first)
      : op_(op),
        memory_(memory),
        sums_(sums),
        begin_(begin),
        rows_(rows),
        into_(first ? Into::set : Into::add) {
    const std::int64_t of_thread = thread * memory.thread_floats;
    h_ = memory.h + of_thread, du_ = memory.du + of_thread, x_ = memory.x + of_thread;
    dxa_ = memory.dxa + of_thread, dha_ = memory.dha + of_thread;
    dx_sums_ = memory.dx_sums + of_thread;
    d_up_ = op.diagonal_up ? op.diagonal_up.data<float>() : nullptr;
    d_down_ = op.diagonal_down ? op.diagonal_down.data<float>() : nullptr;
    rows_of_x_ = op.x.data<T>() + begin * op.x.dim(1);
    rows_of_dy_ = op.dy.data<T>() + begin * op.dy.dim(1);
    const std::int64_t rank_up = op.a_up.dim(1), rank_down = op.a_down.dim(1);
    xa_ = widened(op.xa.data<T>() + begin * rank_up, rank_up, rows, rank_up, memory.xa + of_thread);
    ha_ = widened(op.ha.data<T>() + begin * rank_down, rank_down, rows, rank_down, memory.ha + of_thread);
  }

  template <Activation activation>
  void run() const {
    output();
    if (d_up_ != nullptr) std::fill_n(dx_sums_, rows_ * op_.x.dim(1), 0.F);
    if (into_ == Into::set) {
      if (d_up_ != nullptr) std::fill_n(sums_.dd_up, op_.diagonal_up.elements(), 0.F);
      if (d_down_ != nullptr) std::fill_n(sums_.dd_down, op_.diagonal_down.elements(), 0.F);
    }
    for (std::int64_t c = 0; c < op_.b_up.dim(1); c += chunk_columns) inner<activation>(c);
    input();
  }

 private:
  // dha and db_down.
  void output() const {
    const std::int64_t outputs = op_.b_down.dim(1), rank = op_.a_down.dim(1);
    const T* dy = op_.dy.data<T>() + begin_ * outputs;
    for (std::int64_t c = 0; c < outputs; c += chunk_columns) {
      const std::int64_t columns = std::min(chunk_columns, outputs - c);
      for (std::int64_t j = 0; j < columns; j += panel_width) {
        float* panel = du_ + j / panel_width * panel_apart;
        const std::int64_t some = std::min<std::int64_t>(panel_width, columns - j);
        pack_and_multiply_panel(transposed(ha_), dy + c + j, outputs, some, panel, rank, rows_,
                                sums_.db_down.panel(c + j), into_, nullptr,
                                Ahead(dy + c + j + panel_width, outputs));
      }
      multiply_chunk(du_, memory_.b_down_across + c * panel_width, outputs, rows_, columns, rank,
                     {dha_, rank, c == 0 ? Into::set : Into::add});
    }
  }

  // A chunk of the inner columns: h and du, and their contributions.
  template <Activation activation>
  void inner(std::int64_t c) const {
    const std::int64_t width = op_.b_up.dim(1), columns = std::min(chunk_columns, width - c);
    const std::int64_t inputs = op_.x.dim(1), outputs = op_.dy.dim(1);
    const std::int64_t rank_up = op_.a_up.dim(1), rank_down = op_.a_down.dim(1);
    for (std::int64_t j = 0; j < columns; j += panel_width) {
      float *h = h_ + j / panel_width * panel_apart, *du = du_ + j / panel_width * panel_apart;
      float* dbias = sums_.dbias + c + j;
      if (into_ == Into::set) std::fill_n(dbias, panel_width, 0.F);
      multiply_panel(xa_, memory_.b_up + (c + j) * rank_up, rows_, rank_up, h, Into::set);
      const std::int64_t at = c + j;
      const T *x = rows_of_x_ + at % inputs, *dy = rows_of_dy_ + at % outputs;
      if (d_up_ != nullptr) add_diagonal(h, panel_width, d_up_ + at, x, inputs, rows_);
      activate_panel<activation>(memory_.bias + at, rows_, h, du);
      multiply({dha_, rank_down}, memory_.a_down_across + at * rank_down, rows_, panel_width, rank_down,
               TimesSlope<T>{du, dbias, d_down_ == nullptr ? nullptr : d_down_ + at, dy, outputs});
      if (d_down_ != nullptr) add_diagonal_gradient(sums_.dd_down + at, h, panel_width, dy, outputs, rows_);
      if (d_up_ != nullptr) {
        add_diagonal_gradient(sums_.dd_up + at, du, panel_width, x, inputs, rows_);
        add_diagonal(dx_sums_ + at % inputs, inputs, d_up_ + at, du, panel_width, rows_);
      }
      multiply_panel({dha_, 1, rank_down}, h, rank_down, rows_, sums_.da_down.panel(c + j), into_);
      multiply_panel(transposed(xa_), du, rank_up, rows_, sums_.db_up.panel(c + j), into_);
    }
    multiply_chunk(du_, memory_.b_up_across + c * panel_width, width, rows_, columns, rank_up,
                   {dxa_, rank_up, c == 0 ? Into::set : Into::add});
  }

  void input() const {
    const std::int64_t inputs = op_.x.dim(1), rank = op_.a_up.dim(1);
    T* dx = op_.dx.data<T>() + begin_ * inputs;
    if (d_up_ == nullptr) {
      input_gradient(dxa_, rank, memory_.a_up_across, dx, rows_, inputs, op_.accumulate_dx);
    } else {
      input_gradient(dxa_, rank, memory_.a_up_across, dx_sums_, rows_, inputs, true);
      if (op_.accumulate_dx)
        for (std::int64_t i = 0; i < rows_ * inputs; i += lanes)
          store(dx_sums_ + i, load(dx_sums_ + i) + load(dx + i));
      copy_rows(dx_sums_, inputs, rows_, inputs, dx, inputs);
    }
    weight_gradient({dxa_, 1, rank}, op_.x.data<T>() + begin_ * inputs, inputs, rows_, inputs, sums_.da_up,
                    into_, x_);
  }

  const TTFeedForwardBackward& op_;
  const Memory& memory_;
  const Sums& sums_;
  std::int64_t begin_, rows_;
  Into into_;
  Left xa_, ha_;
  float *h_, *du_, *dxa_, *dha_, *x_, *dx_sums_;
  const float *d_up_, *d_down_;
  const T *rows_of_x_, *rows_of_dy_;
};

void add_sums(const TTFeedForwardBackward& op, const Memory& memory, std::int64_t groups, int threads) {
  const auto& sums = memory.sums;
  add_weight_sums_transposed(op.da_up, groups, threads, [&](std::int64_t g) { return sums[g].da_up; });
  add_weight_sums(op.db_up, groups, threads, [&](std::int64_t g) { return sums[g].db_up; });
  add_groups(op.dbias, groups, threads, [&](std::int64_t g) { return sums[g].dbias; });
  if (op.diagonal_up)
    add_groups(op.ddiagonal_up, groups, threads, [&](std::int64_t g) { return sums[g].dd_up; });
  if (op.diagonal_down)
    add_groups(op.ddiagonal_down, groups, threads, [&](std::int64_t g) { return sums[g].dd_down; });
  add_weight_sums_transposed(op.da_down, groups, threads, [&](std::int64_t g) { return sums[g].da_down; });
  add_weight_sums(op.db_down, groups, threads, [&](std::int64_t g) { return sums[g].db_down; });
}
}  // namespace

std::size_t tt_feed_forward_backward_scratch(const TTFeedForwardBackward& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <class T>
void tt_feed_forward_backward(const TTFeedForwardBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  if (tokens == 0) return;
  Scratch scratch(context.scratch);
  const Memory memory = take(op, scratch);
  const int threads = thread_limit();
  pack_operands<T>(op, memory, threads);
  const std::int64_t groups = group_count(tokens);
  parallel_pieces(groups, threads, [&](std::int64_t g, int thread) {
    const std::int64_t end = tokens * (g + 1) / groups, first = tokens * g / groups;
    for (std::int64_t begin = first; begin < end; begin += block_rows) {
      const Block<T> block(op, memory, memory.sums[g], thread, begin, std::min(block_rows, end - begin),
                           begin == first);
      for_activation(op.activation, [&]<Activation a>() { block.template run<a>(); });
    }
  });
  add_sums(op, memory, groups, threads);
}

COMERA_FOR_EACH_TYPE(TTFeedForwardBackward, tt_feed_forward_backward)

COMERA_CPU_END
