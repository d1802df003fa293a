#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tensor_trains/tt_linear_parts.h"
#include "kernels/cpu/threads.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

COMERA_CPU_BEGIN

namespace {
// Per group; the sums of da are transposed.
struct Sums {
  WeightSums da;
  std::array<WeightSums, max_group_outputs> db{};
  std::array<float*, max_group_outputs> dbias{}, dd{};  // dd: of diagonals

  Sums() = default;
  Sums(const TTLinearBackward& op, Scratch& scratch) : da(op.a.dim(1), op.a.dim(0), scratch) {
    for (int i = 0; i < op.outputs; ++i) {
      const Tensor& b = op.output[i].b;
      db[i] = WeightSums(b.dim(0), b.dim(1), scratch);
      dbias[i] = scratch.floats(panels_of(b.dim(1)) * panel_width);
      if (op.output[i].diagonal) dd[i] = scratch.floats(op.output[i].diagonal.elements());
    }
  }
};

struct Memory {
  float* a = nullptr;                         // Aᵀ packed
  std::array<float*, max_group_outputs> b{};  // Bᵀ packed
  std::array<Sums, groups_most> sums{};
  // per thread
  float* du = nullptr;
  float* dxa = nullptr;
  float* x = nullptr;
  float* xa = nullptr;  // for a narrow type only
  std::int64_t thread_floats = 0;
};

Memory take(const TTLinearBackward& op, Scratch& scratch) {
  const std::int64_t inputs = op.a.dim(0), all = op.a.dim(1);
  Memory memory;
  memory.a = scratch.floats(panels_size(all, inputs));
  for (int i = 0; i < op.outputs; ++i) {
    memory.b[i] = scratch.floats(panels_size(op.output[i].b.dim(1), op.output[i].b.dim(0)));
  }
  for (std::int64_t g = 0; g < group_count(op.x.dim(0)); ++g) memory.sums[g] = Sums(op, scratch);
  const std::size_t before = scratch.bytes();
  memory.du = scratch.floats(panels_of(chunk_columns) * panel_apart);
  memory.dxa = scratch.floats(block_rows * all);
  memory.x = scratch.floats(block_rows * panel_width);
  memory.xa = scratch.floats(widened_size(op, block_rows, all));
  memory.thread_floats = static_cast<std::int64_t>((scratch.bytes() - before) / sizeof(float));
  scratch.floats(memory.thread_floats * (thread_limit() - 1));
  return memory;
}

// du of a chunk of columns: written into dy and into panels, with its column sums.
template <class T>
struct Chunk {
  const T* saved;  // u or y
  T* dy;
  float* dbias;  // of this group, or nullptr
  float* panels;
  std::int64_t width, rows, columns;
};

template <Activation activation, class T, class At>
vec du_of(const Chunk<T>& chunk, T* dy, const T* saved, std::int64_t c, At at) {
  const vec du = derivative_times<activation>(at.load(dy + c), at.load(saved + c));
  at.store(dy + c, du);
  if (chunk.dbias != nullptr) at.store(chunk.dbias + c, at.load(chunk.dbias + c) + du);
  return du;
}

template <Activation activation, class T>
void activation_gradient(const Chunk<T>& chunk) {
  constexpr std::int64_t ahead = 2;  // rows prefetched: too short for the hardware prefetcher
  for (std::int64_t t = 0; t < chunk.rows; ++t) {
    T* dy = chunk.dy + t * chunk.width;
    const T* saved = chunk.saved + t * chunk.width;
    const std::int64_t early = t + ahead < chunk.rows ? ahead * chunk.width : 0;
    float* panel = chunk.panels + t * panel_width;
    for (std::int64_t c = 0; c < chunk.columns; c += panel_width, panel += panel_apart) {
      __builtin_prefetch(dy + early + c, 1);
      __builtin_prefetch(saved + early + c);
      for (int v = 0; v < panel_vectors; ++v) {
        const std::int64_t at = c + v * lanes, left = chunk.columns - at;
        vec du = splat(0);  // a panel is padded where the columns end
        if (left >= lanes) {
          du = du_of<activation>(chunk, dy, saved, at, WholeVector{});
        } else if (left > 0) {
          du = du_of<activation>(chunk, dy, saved, at, PartOfVector{left});
        }
        store(panel + v * lanes, du);
      }
    }
  }
}

template <class T>
class Block {
 public:
  Block(const TTLinearBackward& op, const Memory& memory, const Sums& sums, int thread, std::int64_t begin,
        std::int64_t rows, bool first)
      : op_(op),
        memory_(memory),
        sums_(sums),
        begin_(begin),
        rows_(rows),
        all_(op.a.dim(1)),
        into_(first ? Into::set : Into::add) {
    du_ = memory.du + thread * memory.thread_floats;
    dxa_ = memory.dxa + thread * memory.thread_floats;
    x_ = memory.x + thread * memory.thread_floats;
    xa_ =
        widened(op.xa.data<T>() + begin * all_, all_, rows, all_, memory.xa + thread * memory.thread_floats);
  }

  void run() const {
    std::int64_t ranks = 0;
    for (int i = 0; i < op_.outputs; ++i) ranks += op_.output[i].b.dim(0);
    if (op_.dxa) {
      copy_rows(op_.dxa.data<T>() + begin_ * all_, all_, rows_, all_, dxa_, all_);
    } else if (ranks != all_) {
      std::fill_n(dxa_, rows_ * all_, 0.F);
    }
    for (int i = 0; i < op_.outputs; ++i) output(i);
    input();
    for (int i = 0; i < op_.outputs; ++i)
      if (op_.output[i].diagonal) diagonal(i);
  }

 private:
  void output(int i) const {
    const TTLinearBackward::Output& output = op_.output[i];
    const std::int64_t rank = output.b.dim(0), width = output.b.dim(1);
    for (std::int64_t c = 0; c < width; c += chunk_columns) {
      const std::int64_t columns = std::min(chunk_columns, width - c);
      float* dbias = output.dbias ? sums_.dbias[i] + c : nullptr;
      if (dbias != nullptr && into_ == Into::set) std::fill_n(dbias, panels_of(columns) * panel_width, 0.F);
      for_activation(output.activation, [&]<Activation a>() { du_and_db<a>(i, c, columns, dbias); });
      multiply_chunk(du_, memory_.b[i] + c * panel_width, width, rows_, columns, rank,
                     {dxa_ + output.column, all_, c == 0 ? Into::set : Into::add});
    }
  }

  // du of a chunk in its panels, and its contributions except dxa.
  template <Activation activation>
  void du_and_db(int i, std::int64_t c, std::int64_t columns, float* dbias) const {
    const TTLinearBackward::Output& output = op_.output[i];
    const std::int64_t rank = output.b.dim(0), width = output.b.dim(1), at = begin_ * width + c;
    const Left xa = transposed(xa_.from(0, output.column));
    T* dy = output.dy.data<T>() + at;
    if constexpr (activation != Activation::none) {
      const T* saved = slope_by_value(activation) ? output.y.data<T>() : output.u.data<T>();
      activation_gradient<activation>(Chunk<T>{saved + at, dy, dbias, du_, width, rows_, columns});
    }
    for (std::int64_t j = 0; j < columns; j += panel_width) {
      float *panel = du_ + j / panel_width * panel_apart, *db = sums_.db[i].panel(c + j);
      if constexpr (activation != Activation::none) {
        multiply_panel(xa, panel, rank, rows_, db, into_);
      } else {
        pack_and_multiply_panel(xa, dy + j, width, std::min<std::int64_t>(panel_width, columns - j), panel,
                                rank, rows_, db, into_, dbias == nullptr ? nullptr : dbias + j,
                                c + j + panel_width < width ? Ahead(dy + j + panel_width, width) : Ahead());
      }
    }
  }

  // A diagonal's gradient, and what it passes back to dx.
  void diagonal(int i) const {
    const TTLinearBackward::Output& output = op_.output[i];
    const std::int64_t inputs = op_.a.dim(0), width = output.b.dim(1), size = output.diagonal.elements();
    const T *x = op_.x.data<T>() + begin_ * inputs, *du = output.dy.data<T>() + begin_ * width;
    T* dx = op_.dx.data<T>() + begin_ * inputs;
    if (into_ == Into::set) std::fill_n(sums_.dd[i], size, 0.F);
    for (std::int64_t k = 0; k < size; k += panel_width) {
      add_diagonal_gradient(sums_.dd[i] + k, x + k % inputs, inputs, du + k % width, width, rows_);
      add_diagonal(dx + k % inputs, inputs, output.diagonal.data<float>() + k, du + k % width, width, rows_);
    }
  }

  void input() const {
    const std::int64_t inputs = op_.a.dim(0);
    input_gradient(dxa_, all_, memory_.a, op_.dx.data<T>() + begin_ * inputs, rows_, inputs,
                   op_.accumulate_dx);
    weight_gradient({dxa_, 1, all_}, op_.x.data<T>() + begin_ * inputs, inputs, rows_, inputs, sums_.da,
                    into_, x_);
  }

  const TTLinearBackward& op_;
  const Memory& memory_;
  const Sums& sums_;
  std::int64_t begin_, rows_, all_;
  Into into_;
  Left xa_;
  float *du_, *dxa_, *x_;
};

void add_sums(const TTLinearBackward& op, const Memory& memory, std::int64_t groups, int threads) {
  for (int i = 0; i < op.outputs; ++i) {
    const TTLinearBackward::Output& output = op.output[i];
    add_weight_sums(output.db, groups, threads, [&](std::int64_t g) { return memory.sums[g].db[i]; });
    if (output.dbias) {
      add_groups(output.dbias, groups, threads, [&](std::int64_t g) { return memory.sums[g].dbias[i]; });
    }
    if (output.diagonal)
      add_groups(output.ddiagonal, groups, threads, [&](std::int64_t g) { return memory.sums[g].dd[i]; });
  }
  add_weight_sums_transposed(op.da, groups, threads, [&](std::int64_t g) { return memory.sums[g].da; });
}
}  // namespace

std::size_t tt_linear_backward_scratch(const TTLinearBackward& op) {
  Scratch scratch;
  take(op, scratch);
  return scratch.bytes();
}

template <class T>
void tt_linear_backward(const TTLinearBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0), inputs = op.a.dim(0), all = op.a.dim(1);
  if (tokens == 0) return;
  Scratch scratch(context.scratch);
  const Memory memory = take(op, scratch);
  const int threads = thread_limit();
  parallel_pieces(op.outputs + 1, threads, [&](std::int64_t i, int) {
    if (i == 0) {
      pack_transposed(op.a.data<T>(), all, all, inputs, memory.a);
    } else {
      const Tensor& b = op.output[i - 1].b;
      pack_transposed(b.data<T>(), b.dim(1), b.dim(1), b.dim(0), memory.b[i - 1]);
    }
  });
  const std::int64_t groups = group_count(tokens);
  parallel_pieces(groups, threads, [&](std::int64_t g, int thread) {
    const std::int64_t end = tokens * (g + 1) / groups;
    const std::int64_t first = tokens * g / groups;
    for (std::int64_t begin = first; begin < end; begin += block_rows) {
      const std::int64_t rows = std::min(block_rows, end - begin);
      Block<T>(op, memory, memory.sums[g], thread, begin, rows, begin == first).run();
    }
  });
  add_sums(op, memory, groups, threads);
}

COMERA_FOR_EACH_TYPE(TTLinearBackward, tt_linear_backward)

COMERA_CPU_END
