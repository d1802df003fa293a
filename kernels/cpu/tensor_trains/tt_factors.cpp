#include "kernels/ops/tensor_trains/tt_factors.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
// The products of cores are too small to be divided among threads. A piece of work is therefore a whole side
// of a tensor train: L_0..L_{p-1} with A, or R_p..R_{K-1} with B.
enum Side : std::uint8_t { left, right, sides };

// S_k, L_k and R_k as matrices in memory, and the numbers of rows of L_k and columns of R_k.
struct Partials {
  std::array<const float*, max_tt_cores> gated{}, at{};
  std::array<std::int64_t, max_tt_cores> size{};
};

// Thread-local memory for a side of a tensor train.
struct Room {
  std::array<float*, max_tt_cores> gated{}, partial{};
  float *gradient[2] = {}, *dgated = nullptr;  // gradients of partials, alternating
  double* sums = nullptr;
};

std::int64_t elements_of(const TTCoreChain& train, int k) { return train.core[k].elements(); }

// The middle gate is multiplied into A, which is smaller than S_{p-1}.
bool is_gated(const TTCoreChain& train, int k) { return k + 1 < train.order && k + 1 != train.inputs; }

std::array<std::int64_t, max_tt_cores> sizes(const TTCoreChain& train) {
  std::array<std::int64_t, max_tt_cores> size{};
  size[0] = train.mode(0);
  for (int k = 1; k < train.inputs; ++k) size[k] = size[k - 1] * train.mode(k);
  size[train.order - 1] = train.mode(train.order - 1);
  for (int k = train.order - 2; k >= train.inputs; --k) size[k] = size[k + 1] * train.mode(k);
  return size;
}

Room take(const TTCoreChain& train, Side side, bool backward, Scratch& scratch) {
  Room room;
  const auto size = sizes(train);
  const int begin = side == left ? 0 : train.inputs, end = side == left ? train.inputs : train.order;
  std::int64_t largest = 0, largest_core = 0, widest = 0;
  for (int k = begin; k < end; ++k) {
    if (is_gated(train, k)) room.gated[k] = scratch.floats(elements_of(train, k));
    largest_core = std::max(largest_core, elements_of(train, k));
    widest = std::max(widest, train.rank(k));
    if (side == right && k == begin) continue;  // R_p is B
    const std::int64_t partial = size[k] * (side == left ? train.rank(k) : train.rank(k - 1));
    if (k != 0 && k + 1 != train.order) room.partial[k] = scratch.floats(partial);
    largest = std::max(largest, partial);
  }
  if (!backward) return room;
  for (float*& gradient : room.gradient) gradient = scratch.floats(largest);
  room.dgated = scratch.floats(largest_core);
  room.sums = reinterpret_cast<double*>(scratch.floats(2 * widest));
  return room;
}

template <class Operation>
std::size_t bytes_of_a_thread(const Operation& op, bool backward) {
  std::size_t most = 0;
  for (const auto& factors : op.factors)
    for (const Side side : {left, right}) {
      Scratch scratch;
      take(factors.train, side, backward, scratch);
      most = std::max(most, scratch.bytes());
    }
  return most;
}

const float* gated_core(const TTCoreChain& train, int k, float* to) {
  const auto* core = train.core[k].data<float>();
  if (to == nullptr) return core;
  const auto* gate = train.gate[k].data<float>();
  const std::int64_t rank = train.rank(k), rows = elements_of(train, k) / rank;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < rank; ++j) to[row * rank + j] = core[row * rank + j] * gate[j];
  return to;
}

// L_0..L_{p-1}.
Partials left_partials(const TTCoreChain& train, const Room& room) {
  Partials partials{.size = sizes(train)};
  for (int k = 0; k < train.inputs; ++k) partials.gated[k] = gated_core(train, k, room.gated[k]);
  partials.at[0] = partials.gated[0];
  for (int k = 1; k < train.inputs; ++k) {
    const std::int64_t before = train.rank(k - 1), width = train.mode(k) * train.rank(k);
    sgemm({.m = partials.size[k - 1],
           .n = width,
           .k = before,
           .a = partials.at[k - 1],
           .lda = before,
           .b = partials.gated[k],
           .ldb = width,
           .c = room.partial[k],
           .ldc = width});
    partials.at[k] = room.partial[k];
  }
  return partials;
}

// R_first..R_{K-1}, the first of them in b if given.
Partials right_partials(const TTCoreChain& train, int first, float* b, const Room& room) {
  Partials partials{.size = sizes(train)};
  const int last = train.order - 1;
  for (int k = train.inputs; k <= last; ++k) partials.gated[k] = gated_core(train, k, room.gated[k]);
  partials.at[last] = partials.gated[last];
  for (int k = last - 1; k >= first; --k) {
    float* to = k == first && b != nullptr ? b : room.partial[k];
    sgemm({.m = train.rank(k - 1) * train.mode(k),
           .n = partials.size[k + 1],
           .k = train.rank(k),
           .a = partials.gated[k],
           .lda = train.rank(k),
           .b = partials.at[k + 1],
           .ldb = partials.size[k + 1],
           .c = to,
           .ldc = partials.size[k + 1]});
    partials.at[k] = to;
  }
  return partials;
}

void merge(const TTFactorsForward::Factors& factors, Side side, const Room& room) {
  const TTCoreChain& train = factors.train;
  if (side == right) {
    auto* b = factors.b.data<float>();
    right_partials(train, train.inputs, b, room);
    if (train.inputs + 1 == train.order)  // no product is needed
      std::copy_n(train.core[train.inputs].data<float>(), elements_of(train, train.inputs), b);
    const std::int64_t outputs = factors.b.dim(1), rank = train.rank(train.inputs - 1);
    const std::int64_t zeros = factors.b.dim(0) - rank - (factors.last_row ? 1 : 0);
    std::fill_n(b + rank * outputs, zeros * outputs, 0.F);
    if (factors.last_row)
      std::copy_n(factors.last_row.data<float>(), outputs, b + (factors.b.dim(0) - 1) * outputs);
    return;
  }
  const int last = train.inputs - 1;
  const Partials partials = left_partials(train, room);
  const std::int64_t rank = train.rank(last);
  const auto* gate = train.gate[last].data<float>();
  auto* a = factors.a.data<float>();
  for (std::int64_t row = 0; row < partials.size[last]; ++row, a += factors.a_apart) {
    for (std::int64_t j = 0; j < rank; ++j) a[j] = partials.at[last][row * rank + j] * gate[j];
    std::fill_n(a + rank, factors.columns() - rank, 0.F);
  }
}

void add_to(float* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// With y = x gate, column by column: dx = dy gate, dgate += column sums of dy x. With `add`, adds to dx.
struct GateGradient {
  std::int64_t rows, columns, dy_apart;
  const float *x, *gate, *dy;
  float *dx, *dgate;
  bool add;
};
void gate_gradient(const GateGradient& g, double* sums) {
  std::fill_n(sums, g.columns, 0.0);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const float *dy = g.dy + row * g.dy_apart, *x = g.x + row * g.columns;
    float* dx = g.dx + row * g.columns;
    for (std::int64_t j = 0; j < g.columns; ++j) {
      sums[j] += double{dy[j]} * double{x[j]};
      dx[j] = (g.add ? dx[j] : 0) + dy[j] * g.gate[j];
    }
  }
  for (std::int64_t j = 0; j < g.columns; ++j) g.dgate[j] += static_cast<float>(sums[j]);
}

// Adds dS_k to the gradients of G_k and D_k.
void add_core_gradient(const TTFactorsBackward::Factors& factors, int k, const float* dgated,
                       const Room& room) {
  const TTCoreChain& train = factors.train;
  auto* dcore = factors.dcore[k].data<float>();
  const std::int64_t rank = train.rank(k);
  if (!is_gated(train, k)) return add_to(dcore, dgated, elements_of(train, k));
  gate_gradient({.rows = elements_of(train, k) / rank,
                 .columns = rank,
                 .dy_apart = rank,
                 .x = train.core[k].data<float>(),
                 .gate = train.gate[k].data<float>(),
                 .dy = dgated,
                 .dx = dcore,
                 .dgate = factors.dgate[k].data<float>(),
                 .add = true},
                room.sums);
}

void left_backward(const TTFactorsBackward::Factors& factors, const Room& room) {
  const TTCoreChain& train = factors.train;
  const int last = train.inputs - 1;
  const Partials partials = left_partials(train, room);
  float *dpartial = room.gradient[0], *dprevious = room.gradient[1];
  gate_gradient({.rows = partials.size[last],
                 .columns = train.rank(last),
                 .dy_apart = factors.a_apart,
                 .x = partials.at[last],
                 .gate = train.gate[last].data<float>(),
                 .dy = factors.da.data<float>(),
                 .dx = dpartial,
                 .dgate = factors.dgate[last].data<float>(),
                 .add = false},
                room.sums);
  for (int k = last; k >= 1; --k) {  // L_k = L_{k-1} S_k
    const std::int64_t rows = partials.size[k - 1], before = train.rank(k - 1),
                       width = train.mode(k) * train.rank(k);
    sgemm({.transpose_a = true,
           .m = before,
           .n = width,
           .k = rows,
           .a = partials.at[k - 1],
           .lda = before,
           .b = dpartial,
           .ldb = width,
           .c = room.dgated,
           .ldc = width});
    sgemm({.transpose_b = true,
           .m = rows,
           .n = before,
           .k = width,
           .a = dpartial,
           .lda = width,
           .b = partials.gated[k],
           .ldb = width,
           .c = dprevious,
           .ldc = before});
    add_core_gradient(factors, k, room.dgated, room);
    std::swap(dpartial, dprevious);
  }
  add_core_gradient(factors, 0, dpartial, room);
}

void right_backward(const TTFactorsBackward::Factors& factors, const Room& room) {
  const TTCoreChain& train = factors.train;
  const int last = train.order - 1;
  const Partials partials = right_partials(train, train.inputs + 1, nullptr, room);
  const auto* dpartial = factors.db.data<float>();
  float *dnext = room.gradient[0], *other = room.gradient[1];
  for (int k = train.inputs; k < last; ++k) {  // R_k = S_k R_{k+1}
    const std::int64_t rows = train.rank(k - 1) * train.mode(k), rank = train.rank(k),
                       width = partials.size[k + 1];
    sgemm({.transpose_b = true,
           .m = rows,
           .n = rank,
           .k = width,
           .a = dpartial,
           .lda = width,
           .b = partials.at[k + 1],
           .ldb = width,
           .c = room.dgated,
           .ldc = rank});
    sgemm({.transpose_a = true,
           .m = rank,
           .n = width,
           .k = rows,
           .a = partials.gated[k],
           .lda = rank,
           .b = dpartial,
           .ldb = width,
           .c = dnext,
           .ldc = width});
    add_core_gradient(factors, k, room.dgated, room);
    dpartial = dnext;
    std::swap(dnext, other);
  }
  add_core_gradient(factors, last, dpartial, room);
  if (factors.dlast_row) {
    const std::int64_t outputs = factors.db.dim(1);
    add_to(factors.dlast_row.data<float>(), factors.db.data<float>() + (factors.db.dim(0) - 1) * outputs,
           outputs);
  }
}

template <class Operation, class Piece>
void for_each_side(const Operation& op, bool backward, const KernelContext& context, const Piece& piece) {
  const std::size_t bytes = bytes_of_a_thread(op, backward);
  const auto count = static_cast<std::int64_t>(op.factors.size()) * sides;
  parallel_pieces(count, thread_limit(), [&](std::int64_t i, int thread) {
    const auto& factors = op.factors[static_cast<std::size_t>(i / sides)];
    const auto side = static_cast<Side>(i % sides);
    Scratch scratch(context.scratch + static_cast<std::size_t>(thread) * bytes);
    piece(factors, side, take(factors.train, side, backward, scratch));
  });
}
}  // namespace

std::size_t tt_factors_forward_scratch(const TTFactorsForward& op) {
  return bytes_of_a_thread(op, false) * static_cast<std::size_t>(thread_limit());
}

std::size_t tt_factors_backward_scratch(const TTFactorsBackward& op) {
  return bytes_of_a_thread(op, true) * static_cast<std::size_t>(thread_limit());
}

void tt_factors_forward(const TTFactorsForward& op, const KernelContext& context) {
  for_each_side(op, false, context, merge);
}

void tt_factors_backward(const TTFactorsBackward& op, const KernelContext& context) {
  for_each_side(op, true, context,
                [](const TTFactorsBackward::Factors& factors, Side side, const Room& room) {
                  side == left ? left_backward(factors, room) : right_backward(factors, room);
                });
}

COMERA_CPU_END
