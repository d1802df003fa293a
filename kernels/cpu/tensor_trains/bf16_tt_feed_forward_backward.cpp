#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/elementwise/activations.h"
#include "kernels/cpu/tensor_trains/bf16_gradients.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t most_columns = 256;  // of the inner tensor, which stay in the L2 cache

struct Operands {
  Bf16Operand b_up, a_up_across, b_up_across, a_down_across, b_down_across;
  float* bias = nullptr;  // of whole blocks

  Operands(const TTFeedForwardBackward& op, Scratch& scratch)
      : b_up(op.b_up, false, scratch),
        a_up_across(op.a_up, true, scratch),
        b_up_across(op.b_up, true, scratch),
        a_down_across(op.a_down, true, scratch),
        b_down_across(op.b_down, true, scratch),
        bias(scratch.floats(whole_blocks(op.bias.elements()))) {}

  void pack(const TTFeedForwardBackward& op, int threads) const {
    for (const Bf16Operand* operand : {&b_up, &a_up_across, &b_up_across, &a_down_across, &b_down_across})
      operand->pack(threads);
    const std::int64_t inner = op.bias.elements();
    std::copy_n(op.bias.data<float>(), inner, bias);
    std::fill(bias + inner, bias + whole_blocks(inner), 0.F);
  }
};

// Per group; those of da_up and da_down are transposed.
struct Sums {
  WeightSums da_up, db_up, da_down, db_down;
  float* dbias = nullptr;
  float *dd_up = nullptr, *dd_down = nullptr;  // of diagonals

  Sums() = default;
  Sums(const TTFeedForwardBackward& op, Scratch& scratch)
      : da_up(bf16_weight_sums(op.a_up.dim(1), op.a_up.dim(0), scratch)),
        db_up(bf16_weight_sums(op.b_up.dim(0), op.b_up.dim(1), scratch)),
        da_down(bf16_weight_sums(op.a_down.dim(1), op.a_down.dim(0), scratch)),
        db_down(bf16_weight_sums(op.b_down.dim(0), op.b_down.dim(1), scratch)),
        dbias(scratch.floats(whole_blocks(op.bias.elements()))),
        dd_up(op.diagonal_up ? scratch.floats(op.diagonal_up.elements()) : nullptr),
        dd_down(op.diagonal_down ? scratch.floats(op.diagonal_down.elements()) : nullptr) {}
};

// Thread-local.
struct Memory {
  bfloat16 *rest, *panel;
  Bf16Block xa, xa_across, ha_across, dha, dha_across, dxa, dxa_across, h, du;
  float *sums, *other_sums, *dxa_sums;
  float* dx_sums;  // with a diagonal of up's

  Memory(const TTFeedForwardBackward& op, Scratch& scratch)
      : rest(scratch.narrow(bf16_block * whole_blocks(op.dy.dim(1)))),
        panel(scratch.narrow(bf16_most_rows * bf16_block)),
        xa(bf16_most_rows, op.a_up.dim(1), scratch),
        xa_across(op.a_up.dim(1), bf16_most_rows, scratch),
        ha_across(op.a_down.dim(1), bf16_most_rows, scratch),
        dha(bf16_most_rows, op.a_down.dim(1), scratch),
        dha_across(op.a_down.dim(1), bf16_most_rows, scratch),
        dxa(bf16_most_rows, op.a_up.dim(1), scratch),
        dxa_across(op.a_up.dim(1), bf16_most_rows, scratch),
        h(bf16_most_rows, most_columns + bf16_block, scratch),
        du(bf16_most_rows, most_columns + bf16_block, scratch),
        sums(scratch.floats(bf16_block * bf16_block)),
        other_sums(scratch.floats(bf16_block * bf16_block)),
        dxa_sums(scratch.floats(bf16_most_rows * whole_blocks(op.a_up.dim(1)))),
        dx_sums(op.diagonal_up ? scratch.floats(bf16_most_rows * op.x.dim(1)) : nullptr) {}
};

class Block {
 public:
  Block(const TTFeedForwardBackward& op, const Operands& operands, const Sums& sums, const Memory& memory,
        std::int64_t begin, std::int64_t rows, bool first)
      : op_(op),
        operands_(operands),
        sums_(sums),
        memory_(memory),
        block_{begin, rows, first, memory.panel},
        begin_(begin),
        rows_(rows),
        x_(op.x.data<bfloat16>() + begin * op.x.dim(1)),
        dy_(op.dy.data<bfloat16>() + begin * op.dy.dim(1)),
        d_up_(op.diagonal_up ? op.diagonal_up.data<float>() : nullptr),
        d_down_(op.diagonal_down ? op.diagonal_down.data<float>() : nullptr) {}

  template <Activation activation>
  void run() const {
    const std::int64_t rank_up = op_.a_up.dim(1), rank_down = op_.a_down.dim(1);
    const auto* xa = op_.xa.data<bfloat16>() + begin_ * rank_up;
    for (std::int64_t i = 0; i < rows_; i += bf16_block)
      bf16_pack_rows(xa + i * rank_up, rank_up, false, block_.rows_from(i), rank_up,
                     memory_.xa.at + i * memory_.xa.ld, memory_.xa.ld);
    block_.pack_across(xa, rank_up, rank_up, memory_.xa_across);
    block_.pack_across(op_.ha.data<bfloat16>() + begin_ * rank_down, rank_down, rank_down, memory_.ha_across);
    output();
    if (d_up_ != nullptr) std::fill_n(memory_.dx_sums, rows_ * op_.x.dim(1), 0.F);
    if (block_.first) {
      if (d_up_ != nullptr) std::fill_n(sums_.dd_up, op_.diagonal_up.elements(), 0.F);
      if (d_down_ != nullptr) std::fill_n(sums_.dd_down, op_.diagonal_down.elements(), 0.F);
    }
    for (std::int64_t c = 0; c < op_.b_up.dim(1); c += most_columns) inner<activation>(c);
    input();
  }

 private:
  // dha and db_down.
  void output() const {
    const std::int64_t outputs = op_.b_down.dim(1), rank = op_.a_down.dim(1);
    const Bf16Block& dha = memory_.dha;
    const auto* dy = op_.dy.data<bfloat16>() + begin_ * outputs;
    for (std::int64_t i = 0; i < rows_; i += bf16_block) {
      const Bf16Rows rows = bf16_rows(dy + i * outputs, outputs, block_.rows_from(i), outputs, memory_.rest);
      for (std::int64_t j = 0; j < rank; j += bf16_block) {
        bf16_multiply(rows, operands_.b_down_across.panel(j), memory_.sums, bf16_block, false, rank - j);
        bf16_store(memory_.sums, bf16_block, bf16_block, bf16_block, dha.at + i * dha.ld + j, dha.ld, false);
      }
    }
    block_.pack_across(dha.at, dha.ld, rank, memory_.dha_across);
    block_.weight_gradient(memory_.ha_across, rank, dy, outputs, outputs, sums_.db_down);
  }

  // A chunk of the inner columns: h and du, and their contributions.
  template <Activation activation>
  void inner(std::int64_t c) const {
    const std::int64_t columns = std::min(most_columns, whole_blocks(op_.b_up.dim(1) - c));
    const std::int64_t rank_up = op_.a_up.dim(1);
    const Bf16Block &h = memory_.h, &du = memory_.du;
    for (std::int64_t j = 0; j < columns; j += bf16_block) {
      if (block_.first) std::fill_n(sums_.dbias + c + j, bf16_block, 0.F);
      for (std::int64_t i = 0; i < rows_; i += bf16_block) {
        bf16_multiply(memory_.xa.rows(i), operands_.b_up.panel(c + j), memory_.sums, bf16_block, false);
        bf16_multiply(memory_.dha.rows(i), operands_.a_down_across.panel(c + j), memory_.other_sums,
                      bf16_block, false);
        add_diagonals(i, c + j);
        activate_block<activation>(operands_.bias + c + j, h.at + i * h.ld + j, du.at + i * du.ld + j,
                                   sums_.dbias + c + j);
        diagonal_gradients(i, c + j, h.at + i * h.ld + j, du.at + i * du.ld + j);
      }
    }
    block_.weight_gradient(memory_.dha_across, op_.a_down.dim(1), h.at, h.ld, columns, sums_.da_down, c);
    block_.weight_gradient(memory_.xa_across, rank_up, du.at, du.ld, columns, sums_.db_up, c);
    const std::int64_t ld = memory_.dxa.ld;
    for (std::int64_t i = 0; i < rows_; i += bf16_block) {
      for (std::int64_t j = 0; j < ld; j += bf16_block)
        bf16_multiply({du.at + i * du.ld, du.ld, columns / bf16_block}, operands_.b_up_across.panel(j, c),
                      memory_.dxa_sums + i * ld + j, ld, c > 0, rank_up - j);
    }
  }

  // Adds those of up to u, and of down to dh: of 32 rows and inner columns.
  void add_diagonals(std::int64_t row, std::int64_t column) const {
    const std::int64_t rows = block_.rows_from(row), inputs = op_.x.dim(1), outputs = op_.dy.dim(1);
    if (d_up_ != nullptr)
      add_diagonal(memory_.sums, bf16_block, d_up_ + column, x_ + row * inputs + column % inputs, inputs,
                   rows);
    if (d_down_ != nullptr)
      add_diagonal(memory_.other_sums, bf16_block, d_down_ + column, dy_ + row * outputs + column % outputs,
                   outputs, rows);
  }

  // Their gradients, and what up's adds to dx.
  void diagonal_gradients(std::int64_t row, std::int64_t column, const bfloat16* h,
                          const bfloat16* du) const {
    const std::int64_t rows = block_.rows_from(row), inputs = op_.x.dim(1), outputs = op_.dy.dim(1);
    if (d_down_ != nullptr)
      add_diagonal_gradient(sums_.dd_down + column, h, memory_.h.ld, dy_ + row * outputs + column % outputs,
                            outputs, rows);
    if (d_up_ == nullptr) return;
    const std::int64_t at = row * inputs + column % inputs;
    add_diagonal_gradient(sums_.dd_up + column, du, memory_.du.ld, x_ + at, inputs, rows);
    add_diagonal(memory_.dx_sums + at, inputs, d_up_ + column, du, memory_.du.ld, rows);
  }

  // Computes h from u in `sums`, and du from dh in `other_sums`; rows beyond the block are 0.
  template <Activation activation>
  void activate_block(const float* bias, bfloat16* h, bfloat16* du, float* dbias) const {
    vec totals[] = {load(dbias), load(dbias + lanes)};
    for_biased_rows(memory_.sums, bias, bf16_block, [&]<int Vectors>(std::int64_t r, vec(&u)[Vectors]) {
      vec slope[Vectors];
      activate_with_slope<activation>(u, slope);
      for (int k = 0; k < Vectors; ++k) {
        const std::int64_t row = r + k / 2, column = k % 2 * lanes;
        const vec gradient = load(memory_.other_sums + row * bf16_block + column) * slope[k];
        store(h + row * memory_.h.ld + column, u[k]);
        store(du + row * memory_.du.ld + column, gradient);
        totals[k % 2] += gradient;
      }
    });
    for (int half = 0; half < 2; ++half) store(dbias + half * lanes, totals[half]);
  }

  void input() const {
    const std::int64_t inputs = op_.x.dim(1), rank = op_.a_up.dim(1);
    const Bf16Block& dxa = memory_.dxa;
    for (std::int64_t i = 0; i < rows_; i += bf16_block) {
      for (std::int64_t j = 0; j < dxa.ld; j += bf16_block)
        bf16_store(memory_.dxa_sums + i * dxa.ld + j, dxa.ld, bf16_block, bf16_block, dxa.at + i * dxa.ld + j,
                   dxa.ld, false);
      for (std::int64_t j = 0; j < inputs; j += bf16_block) {
        bf16_multiply(dxa.rows(i), operands_.a_up_across.panel(j), memory_.sums, bf16_block, false);
        if (d_up_ != nullptr) add_rows(memory_.dx_sums + i * inputs + j, inputs, block_.rows_from(i));
        bf16_store_far(memory_.sums, block_.rows_from(i), std::min(bf16_block, inputs - j),
                       op_.dx.data<bfloat16>() + (begin_ + i) * inputs + j, inputs, op_.accumulate_dx);
      }
    }
    block_.pack_across(dxa.at, dxa.ld, rank, memory_.dxa_across);
    block_.weight_gradient(memory_.dxa_across, rank, op_.x.data<bfloat16>() + begin_ * inputs, inputs, inputs,
                           sums_.da_up);
  }

  // sums += from, of 32 columns.
  void add_rows(const float* from, std::int64_t ld, std::int64_t rows) const {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < bf16_block; c += lanes) {
        float* at = memory_.sums + r * bf16_block + c;
        store(at, load(at) + load(from + r * ld + c));
      }
  }

  const TTFeedForwardBackward& op_;
  const Operands& operands_;
  const Sums& sums_;
  const Memory& memory_;
  Bf16RowBlock block_;
  std::int64_t begin_, rows_;
  const bfloat16 *x_, *dy_;  // the block's rows
  const float *d_up_, *d_down_;
};

void run(const Block& block, Activation activation) {
  for_activation(activation, [&]<Activation a>() { block.run<a>(); });
}

struct GroupSums {
  std::int64_t groups;
  std::array<Sums, groups_most> of{};

  GroupSums(const TTFeedForwardBackward& op, Scratch& scratch) : groups(group_count(op.x.dim(0))) {
    for (std::int64_t g = 0; g < groups; ++g) of[g] = Sums(op, scratch);
  }
};
}  // namespace

std::size_t bf16_tt_feed_forward_backward_scratch(const TTFeedForwardBackward& op) {
  Scratch shared, thread;
  const Operands operands(op, shared);
  const GroupSums sums(op, shared);
  const Memory memory(op, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_tt_feed_forward_backward(const TTFeedForwardBackward& op, const KernelContext& context) {
  const std::int64_t tokens = op.x.dim(0);
  if (tokens == 0) return;
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Operands operands(op, shared);
  const GroupSums sums(op, shared);
  operands.pack(op, threads);
  const std::int64_t groups = sums.groups;
  const std::size_t each = (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(threads);
  parallel_pieces(groups, threads, [&](std::int64_t g, int thread) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(thread));
    const Memory memory(op, own);
    const Bf16Tiles tiles;
    const std::int64_t first = tokens * g / groups, end = tokens * (g + 1) / groups;
    for (std::int64_t begin = first; begin < end; begin += bf16_most_rows)
      run(Block(op, operands, sums.of[g], memory, begin, std::min(bf16_most_rows, end - begin),
                begin == first),
          op.activation);
  });
  add_weight_sums_transposed(op.da_up, groups, threads, [&](std::int64_t g) { return sums.of[g].da_up; });
  add_weight_sums(op.db_up, groups, threads, [&](std::int64_t g) { return sums.of[g].db_up; });
  add_weight_sums_transposed(op.da_down, groups, threads, [&](std::int64_t g) { return sums.of[g].da_down; });
  add_weight_sums(op.db_down, groups, threads, [&](std::int64_t g) { return sums.of[g].db_down; });
  add_groups(op.dbias, groups, threads, [&](std::int64_t g) { return sums.of[g].dbias; });
  if (op.diagonal_up)
    add_groups(op.ddiagonal_up, groups, threads, [&](std::int64_t g) { return sums.of[g].dd_up; });
  if (op.diagonal_down)
    add_groups(op.ddiagonal_down, groups, threads, [&](std::int64_t g) { return sums.of[g].dd_down; });
}

COMERA_CPU_END
