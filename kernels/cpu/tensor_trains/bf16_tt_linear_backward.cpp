#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/tensor_trains/bf16_gradients.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

COMERA_CPU_BEGIN

namespace {
struct Operands {
  Bf16Operand a_across;
  std::array<Bf16Operand, max_group_outputs> b_across;

  Operands(const TTLinearBackward& op, Scratch& scratch) : a_across(op.a, true, scratch) {
    for (int i = 0; i < op.outputs; ++i) b_across[i] = Bf16Operand(op.output[i].b, true, scratch);
  }
  void pack(int outputs, int threads) const {
    a_across.pack(threads);
    for (int i = 0; i < outputs; ++i) b_across[i].pack(threads);
  }
};

// Per group; da's are transposed.
struct Sums {
  WeightSums da;
  std::array<WeightSums, max_group_outputs> db{};
  std::array<float*, max_group_outputs> dbias{}, dd{};  // dd: of diagonals

  Sums() = default;
  Sums(const TTLinearBackward& op, Scratch& scratch)
      : da(bf16_weight_sums(op.a.dim(1), op.a.dim(0), scratch)) {
    for (int i = 0; i < op.outputs; ++i) {
      const Tensor& b = op.output[i].b;
      db[i] = bf16_weight_sums(b.dim(0), b.dim(1), scratch);
      dbias[i] = scratch.floats(b.dim(1));
      if (op.output[i].diagonal) dd[i] = scratch.floats(op.output[i].diagonal.elements());
    }
  }
};

struct GroupSums {
  std::int64_t groups;
  std::array<Sums, groups_most> of{};

  GroupSums(const TTLinearBackward& op, Scratch& scratch) : groups(group_count(op.x.dim(0))) {
    for (std::int64_t g = 0; g < groups; ++g) of[g] = Sums(op, scratch);
  }
};

// Thread-local.
struct Memory {
  bfloat16 *rest, *panel;
  Bf16Block xa_across, dxa, dxa_across;
  float* sums;

  Memory(const TTLinearBackward& op, Scratch& scratch) {
    std::int64_t widest = 1;
    for (int i = 0; i < op.outputs; ++i) widest = std::max(widest, op.output[i].b.dim(1));
    rest = scratch.narrow(bf16_block * whole_blocks(widest));
    panel = scratch.narrow(bf16_most_rows * bf16_block);
    xa_across = Bf16Block(op.a.dim(1), bf16_most_rows, scratch);
    dxa = Bf16Block(bf16_most_rows, op.a.dim(1), scratch);
    dxa_across = Bf16Block(op.a.dim(1), bf16_most_rows, scratch);
    sums = scratch.floats(bf16_block * bf16_block);
  }
};

class Block {
 public:
  Block(const TTLinearBackward& op, const Operands& operands, const Sums& sums, const Memory& memory,
        const Bf16RowBlock& block)
      : op_(op), operands_(operands), sums_(sums), memory_(memory), block_(block), all_(op.a.dim(1)) {}

  void run() const {
    const Bf16Block& dxa = memory_.dxa;
    std::fill_n(dxa.at, bf16_most_rows * dxa.ld, bfloat16(0.F));
    if (op_.dxa)
      copy_rows(op_.dxa.data<bfloat16>() + block_.begin * all_, all_, block_.rows, all_, dxa.at, dxa.ld);
    for (int i = 0; i < op_.outputs; ++i) {
      output_gradient(i);
      output(i);
      if (op_.output[i].diagonal) diagonal_gradient(i);
    }
    input();
  }

 private:
  // Computes du in place of dy, and its column sums.
  void output_gradient(int i) const {
    const TTLinearBackward::Output& output = op_.output[i];
    float* dbias = output.dbias ? sums_.dbias[i] : nullptr;
    if (dbias != nullptr && block_.first) std::fill_n(dbias, output.b.dim(1), 0.F);
    for_activation(output.activation, [&]<Activation a>() {
      if (a == Activation::none && dbias == nullptr) return;
      const bfloat16* saved = nullptr;
      if (slope_by_argument(a)) saved = output.u.data<bfloat16>();
      if (slope_by_value(a)) saved = output.y.data<bfloat16>();
      gradient_rows<a>(output, saved, dbias);
    });
  }

  template <Activation activation>
  void gradient_rows(const TTLinearBackward::Output& output, const bfloat16* saved, float* dbias) const {
    const std::int64_t width = output.b.dim(1);
    for (std::int64_t r = block_.begin; r < block_.begin + block_.rows; ++r) {
      bfloat16* dy = output.dy.data<bfloat16>() + r * width;
      for_columns(0, width, [&](std::int64_t c, auto at) {
        vec du = at.load(dy + c);
        if constexpr (activation != Activation::none) {
          du = derivative_times<activation>(du, at.load(saved + r * width + c));
          at.store(dy + c, du);
        }
        if (dbias != nullptr) at.store(dbias + c, at.load(dbias + c) + du);
      });
    }
  }

  // db, and the output's part of dxa.
  void output(int i) const {
    const TTLinearBackward::Output& output = op_.output[i];
    const std::int64_t rank = output.b.dim(0), width = output.b.dim(1);
    const bfloat16* du = output.dy.data<bfloat16>() + block_.begin * width;
    block_.pack_across(op_.xa.data<bfloat16>() + block_.begin * all_ + output.column, all_, rank,
                       memory_.xa_across);
    block_.weight_gradient(memory_.xa_across, rank, du, width, width, sums_.db[i]);
    const Bf16Block& dxa = memory_.dxa;
    for (std::int64_t r = 0; r < block_.rows; r += bf16_block) {
      const Bf16Rows rows = bf16_rows(du + r * width, width, block_.rows_from(r), width, memory_.rest);
      for (std::int64_t j = 0; j < rank; j += bf16_block) {
        bf16_multiply(rows, operands_.b_across[i].panel(j), memory_.sums, bf16_block, false, rank - j);
        bf16_store(memory_.sums, bf16_block, block_.rows_from(r), std::min(bf16_block, rank - j),
                   dxa.at + r * dxa.ld + output.column + j, dxa.ld, false);
      }
    }
  }

  void diagonal_gradient(int i) const {
    const TTLinearBackward::Output& output = op_.output[i];
    const std::int64_t inputs = op_.a.dim(0), width = output.b.dim(1), size = output.diagonal.elements();
    if (block_.first) std::fill_n(sums_.dd[i], size, 0.F);
    for (std::int64_t k = 0; k < size; k += bf16_block)
      add_diagonal_gradient(sums_.dd[i] + k, op_.x.data<bfloat16>() + block_.begin * inputs + k % inputs,
                            inputs, output.dy.data<bfloat16>() + block_.begin * width + k % width, width,
                            block_.rows);
  }

  // Adds what diagonals pass back to inputs [j, j + 32) of these rows.
  void add_diagonals(std::int64_t row, std::int64_t rows, std::int64_t j) const {
    const std::int64_t inputs = op_.a.dim(0);
    for (int i = 0; i < op_.outputs; ++i) {
      const TTLinearBackward::Output& output = op_.output[i];
      const std::int64_t width = output.b.dim(1);
      if (!output.diagonal) continue;
      for (std::int64_t k = j % width; k < width; k += inputs)  // once where there are more inputs
        add_diagonal(memory_.sums, bf16_block, output.diagonal.data<float>() + std::max(k, j),
                     output.dy.data<bfloat16>() + row * width + k, width, rows);
    }
  }

  void input() const {
    const std::int64_t inputs = op_.a.dim(0);
    const Bf16Block& dxa = memory_.dxa;
    for (std::int64_t r = 0; r < block_.rows; r += bf16_block) {
      bfloat16* dx = op_.dx.data<bfloat16>() + (block_.begin + r) * inputs;
      for (std::int64_t j = 0; j < inputs; j += bf16_block) {
        bf16_multiply(dxa.rows(r), operands_.a_across.panel(j), memory_.sums, bf16_block, false);
        add_diagonals(block_.begin + r, block_.rows_from(r), j);
        bf16_store_far(memory_.sums, block_.rows_from(r), std::min(bf16_block, inputs - j), dx + j, inputs,
                       op_.accumulate_dx);
      }
    }
    block_.pack_across(dxa.at, dxa.ld, all_, memory_.dxa_across);
    block_.weight_gradient(memory_.dxa_across, all_, op_.x.data<bfloat16>() + block_.begin * inputs, inputs,
                           inputs, sums_.da);
  }

  const TTLinearBackward& op_;
  const Operands& operands_;
  const Sums& sums_;
  const Memory& memory_;
  const Bf16RowBlock& block_;
  std::int64_t all_;
};
}  // namespace

std::size_t bf16_tt_linear_backward_scratch(const TTLinearBackward& op) {
  Scratch shared, thread;
  const Operands operands(op, shared);
  const GroupSums sums(op, shared);
  const Memory memory(op, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_tt_linear_backward(const TTLinearBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  if (tokens == 0) return;
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Operands operands(op, shared);
  const GroupSums sums(op, shared);
  operands.pack(op.outputs, threads);
  const std::int64_t groups = sums.groups;
  const std::size_t each = (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(threads);
  parallel_pieces(groups, threads, [&](std::int64_t g, int thread) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(thread));
    const Memory memory(op, own);
    const Bf16Tiles tiles;
    const std::int64_t first = tokens * g / groups, end = tokens * (g + 1) / groups;
    for (std::int64_t begin = first; begin < end; begin += bf16_most_rows) {
      const Bf16RowBlock block{begin, std::min(bf16_most_rows, end - begin), begin == first, memory.panel};
      Block(op, operands, sums.of[g], memory, block).run();
    }
  });
  add_weight_sums_transposed(op.da, groups, threads, [&](std::int64_t g) { return sums.of[g].da; });
  for (int i = 0; i < op.outputs; ++i) {
    const TTLinearBackward::Output& output = op.output[i];
    add_weight_sums(output.db, groups, threads, [&](std::int64_t g) { return sums.of[g].db[i]; });
    if (output.dbias)
      add_groups(output.dbias, groups, threads, [&](std::int64_t g) { return sums.of[g].dbias[i]; });
    if (output.diagonal)
      add_groups(output.ddiagonal, groups, threads, [&](std::int64_t g) { return sums.of[g].dd[i]; });
  }
}

COMERA_CPU_END
