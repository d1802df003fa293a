#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/tensor_trains/bf16_gradients.h"
#include "kernels/ops/tensor_trains/ttm_table.h"

// Both passes are products of (L nl) rows with (R nr) columns over the rank. Their factors are rounded to
// bfloat16, as those of layers are, and the table's layout (L, R, nl, nr) is written and read in place.
COMERA_CPU_BEGIN

namespace {
struct Table {
  std::int64_t nl, rank, right_rows, nr, m, n;  // m = L nl, n = R nr

  template <class Operation>
  explicit Table(const Operation& op)
      : nl(op.left.dim(1)),
        rank(op.left.dim(2)),
        right_rows(op.right.dim(1)),
        nr(op.right.dim(2)),
        m(op.left.dim(0) * nl),
        n(right_rows * nr) {}

  // part(row of the block, column of the block, place in the table, neighbours) for rows [i, i + rows) and
  // columns [j, j + columns) of the product: pieces that are together in the table, in its order.
  template <class Part>
  void for_parts(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns,
                 const Part& part) const {
    for (std::int64_t first = 0; first < rows;) {
      const std::int64_t l = (i + first) / nl, a = (i + first) % nl, last = std::min(rows, first + nl - a);
      for (std::int64_t c = 0; c < columns;) {
        const std::int64_t r = (j + c) / nr, b = (j + c) % nr, count = std::min(nr - b, columns - c);
        std::int64_t place = ((l * right_rows + r) * nl + a) * nr + b;
        for (std::int64_t row = first; row < last; ++row, place += nr) part(row, c, place, count);
        c += count;
      }
      first = last;
    }
  }
};

// Few neighbours at a time: a call would take longer than the copy.
inline void copy_part(const bfloat16* from, std::int64_t count, bfloat16* to) {
  if (count == 8)
    std::memcpy(to, from, 8 * sizeof(bfloat16));
  else if (count == 16)
    std::memcpy(to, from, 16 * sizeof(bfloat16));
  else
    std::copy_n(from, count, to);
}

// Rows [i, i + rows) of left, rounded; what is behind them in `to` becomes 0.
void round_left(const Tensor& left, std::int64_t i, std::int64_t rows, const Bf16Block& to) {
  const std::int64_t rank = left.dim(2);
  if (rows < bf16_most_rows)
    std::fill_n(to.at + rows * to.ld, (bf16_most_rows - rows) * to.ld, bfloat16(0.F));
  copy_rows(left.data<float>() + i * rank, rank, rows, rank, to.at, to.ld);
}

// Right, rounded and packed.
class Right {
 public:
  Right(const Tensor& right, bool transposed, Scratch& scratch)
      : from_(right),
        rounded_(scratch.narrow(right.elements())),
        operand_(Tensor(rounded_, {right.dim(0), right.dim(1) * right.dim(2)}, DType::bfloat16), transposed,
                 scratch) {}

  void pack(int threads) const {
    copy_rows(from_.data<float>(), 0, 1, from_.elements(), rounded_, 0);
    operand_.pack(threads);
  }
  const bfloat16* panel(std::int64_t j) const { return operand_.panel(j); }

 private:
  Tensor from_;
  bfloat16* rounded_;
  Bf16Operand operand_;
};

struct ForwardMemory {  // of a thread
  Bf16Block left;
  float* sums;
  bfloat16* narrow;

  ForwardMemory(const Table& table, Scratch& scratch)
      : left(bf16_most_rows, table.rank, scratch),
        sums(scratch.floats(bf16_block * bf16_block)),
        narrow(scratch.narrow(bf16_block * bf16_block)) {}
};

struct BackwardMemory {  // of a thread
  Bf16Block left, gradient, left_across;
  bfloat16* panel;
  float* sums;

  BackwardMemory(const Table& table, Scratch& scratch)
      : left(bf16_most_rows, table.rank, scratch),
        gradient(bf16_most_rows, table.n, scratch),
        left_across(table.rank, bf16_most_rows, scratch),
        panel(scratch.narrow(bf16_most_rows * bf16_block)),
        sums(scratch.floats(bf16_block * bf16_block)) {}

  // Columns beyond the rank and beyond n stay 0.
  void clear() const {
    std::fill_n(left.at, bf16_most_rows * left.ld, bfloat16(0.F));
    std::fill_n(gradient.at, bf16_most_rows * gradient.ld, bfloat16(0.F));
  }
};

// Groups of rows of the product have separate sums of dright.
struct RightSums {
  std::int64_t groups;
  std::array<WeightSums, groups_most> of{};

  RightSums(const Table& table, Scratch& scratch) : groups(group_count(table.m)) {
    for (std::int64_t g = 0; g < groups; ++g) of[g] = bf16_weight_sums(table.rank, table.n, scratch);
  }
};

void forward_block(const TTMTableForward& op, const Table& table, const Right& right, std::int64_t begin,
                   const ForwardMemory& memory) {
  auto* to = op.rows.data<bfloat16>();
  const std::int64_t rows = std::min(bf16_most_rows, table.m - begin);
  round_left(op.left, begin, rows, memory.left);
  for (std::int64_t j = 0; j < table.n; j += bf16_block) {
    const std::int64_t columns = std::min(bf16_block, table.n - j);
    for (std::int64_t i = 0; i < rows; i += bf16_block) {
      const std::int64_t height = std::min(bf16_block, rows - i);
      bf16_multiply(memory.left.rows(i), right.panel(j), memory.sums, bf16_block, false, columns);
      bf16_store(memory.sums, bf16_block, height, columns, memory.narrow, bf16_block, false);
      table.for_parts(begin + i, height, j, columns, [&](auto row, auto column, auto place, auto count) {
        copy_part(memory.narrow + row * bf16_block + column, count, to + place);
      });
    }
  }
}

void backward_block(const TTMTableBackward& op, const Table& table, const Right& right,
                    const Bf16RowBlock& block, const WeightSums& sums, const BackwardMemory& memory) {
  const auto* from = op.drows.data<bfloat16>();
  const Bf16Block& gradient = memory.gradient;
  round_left(op.left, block.begin, block.rows, memory.left);
  if (block.rows < bf16_most_rows)
    std::fill_n(gradient.at + block.rows * gradient.ld, (bf16_most_rows - block.rows) * gradient.ld,
                bfloat16(0.F));
  table.for_parts(block.begin, block.rows, 0, table.n, [&](auto row, auto column, auto place, auto count) {
    copy_part(from + place, count, gradient.at + row * gradient.ld + column);
  });
  for (std::int64_t i = 0; i < block.rows; i += bf16_block) {
    float* dleft = op.dleft.data<float>() + (block.begin + i) * table.rank;
    for (std::int64_t j = 0; j < table.rank; j += bf16_block) {
      bf16_multiply(gradient.rows(i), right.panel(j), memory.sums, bf16_block, false, table.rank - j);
      bf16_store(memory.sums, bf16_block, block.rows_from(i), std::min(bf16_block, table.rank - j), dleft + j,
                 table.rank, true);
    }
  }
  block.pack_across(memory.left.at, memory.left.ld, table.rank, memory.left_across);
  block.weight_gradient(memory.left_across, table.rank, gradient.at, gradient.ld, table.n, sums);
}
}  // namespace

std::size_t bf16_ttm_table_forward_scratch(const TTMTableForward& op) {
  const Table table(op);
  Scratch shared, thread;
  const Right right(op.right, false, shared);
  const ForwardMemory memory(table, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_ttm_table_forward(const TTMTableForward& op, const KernelContext& context) {
  const Table table(op);
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Right right(op.right, false, shared);
  right.pack(threads);
  const std::size_t each = (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(threads);
  const std::int64_t blocks = (table.m + bf16_most_rows - 1) / bf16_most_rows;
  parallel_pieces(blocks, threads, [&](std::int64_t piece, int thread) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(thread));
    const ForwardMemory memory(table, own);
    std::fill_n(memory.left.at, bf16_most_rows * memory.left.ld, bfloat16(0.F));
    const Bf16Tiles tiles;
    forward_block(op, table, right, piece * bf16_most_rows, memory);
  });
}

std::size_t bf16_ttm_table_backward_scratch(const TTMTableBackward& op) {
  const Table table(op);
  Scratch shared, thread;
  const Right right(op.right, true, shared);
  const RightSums sums(table, shared);
  const BackwardMemory memory(table, thread);
  return shared.bytes() + thread.bytes() * static_cast<std::size_t>(thread_limit());
}

void bf16_ttm_table_backward(const TTMTableBackward& op, const KernelContext& context) {
  const Table table(op);
  const int threads = thread_limit();
  Scratch shared(context.scratch);
  const Right right(op.right, true, shared);
  const RightSums sums(table, shared);
  right.pack(threads);
  const std::size_t each = (context.scratch_bytes - shared.bytes()) / static_cast<std::size_t>(threads);
  parallel_pieces(sums.groups, threads, [&](std::int64_t g, int thread) {
    Scratch own(context.scratch + shared.bytes() + each * static_cast<std::size_t>(thread));
    const BackwardMemory memory(table, own);
    memory.clear();
    const Bf16Tiles tiles;
    const std::int64_t first = table.m * g / sums.groups, end = table.m * (g + 1) / sums.groups;
    for (std::int64_t begin = first; begin < end; begin += bf16_most_rows)
      backward_block(op, table, right,
                     {begin, std::min(bf16_most_rows, end - begin), begin == first, memory.panel}, sums.of[g],
                     memory);
  });
  add_weight_sums(op.dright.reshape({table.rank, table.n}), sums.groups, threads,
                  [&](std::int64_t g) { return sums.of[g]; });
}

COMERA_CPU_END
