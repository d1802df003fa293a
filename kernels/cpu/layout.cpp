#include "kernels/ops/layout.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

void add(const Add& op, const KernelContext&) {
  for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    const float* x = op.x.data<float>() + begin;
    float* y = op.y.data<float>() + begin;
    for_columns(0, count, [&](std::int64_t c, auto at) { at.store(y + c, at.load(y + c) + at.load(x + c)); });
  });
}

void fill(const Fill& op, const KernelContext&) {
  for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    std::fill_n(op.x.data<float>() + begin, count, static_cast<float>(op.value));
  });
}

void swap_axes(const SwapAxes& op, const KernelContext&) {
  const std::int64_t outer = op.x.dim(0), p = op.x.dim(1), q = op.x.dim(2), inner = op.x.dim(3);
  constexpr std::int64_t columns = 64;  // of q in a piece
  const std::int64_t pieces = (q + columns - 1) / columns;
  const int threads = op.x.elements() < flat_piece ? 1 : thread_limit();
  parallel_pieces(outer * pieces, threads, [&](std::int64_t piece, int) {
    const std::int64_t o = piece / pieces, begin = piece % pieces * columns;
    const std::int64_t end = std::min(q, begin + columns);
    const float* x = op.x.data<float>() + o * p * q * inner;
    float* y = op.y.data<float>() + o * p * q * inner;
    if (inner == 1) return transpose(x + begin, q, p, end - begin, y + begin * p, p);
    for (std::int64_t j = begin; j < end; ++j) {
      for (std::int64_t i = 0; i < p; ++i) {
        std::copy_n(x + (i * q + j) * inner, inner, y + (j * p + i) * inner);
      }
    }
  });
}

COMERA_CPU_END
