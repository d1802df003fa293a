#include "kernels/ops/elementwise/layout.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

template <class T>
void add(const Add& op, const KernelContext&) {
  for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    const T* x = op.x.data<T>() + begin;
    T* y = op.y.data<T>() + begin;
    for_columns(0, count, [&](std::int64_t c, auto at) { at.store(y + c, at.load(y + c) + at.load(x + c)); });
  });
}

namespace {
template <class From, class To>
void cast_piece(const From* x, To* y, std::int64_t count) {
  for_columns(0, count, [&](std::int64_t c, auto at) { at.store(y + c, at.load(x + c)); });
}
template <class To>
void cast_piece(const double* x, To* y, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) y[c] = To(static_cast<float>(x[c]));
}
}  // namespace

template <class T>
void cast(const Cast& op, const KernelContext&) {
  const auto from = [&](const auto* x) {
    for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
      cast_piece(x + begin, op.y.data<T>() + begin, count);
    });
  };
  if (op.x.dtype() == DType::float64) return from(op.x.data<double>());
  if (op.x.dtype() == DType::bfloat16) return from(op.x.data<bfloat16>());
  from(op.x.data<float>());
}

template <class T>
void fill(const Fill& op, const KernelContext&) {
  for_flat_pieces(op.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    std::fill_n(op.x.data<T>() + begin, count, T(static_cast<float>(op.value)));
  });
}

namespace {
// y (columns x p x inner) = x (p x q x inner) for columns [0, columns) of its q. Inner: `inner` if it is
// known here.
template <std::int64_t Inner>
void swap_columns(const float* x, std::int64_t p, std::int64_t q, std::int64_t inner, std::int64_t columns,
                  float* y) {
  const std::int64_t size = Inner == 0 ? inner : Inner;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < p; ++i) std::copy_n(x + (i * q + j) * size, size, y + (j * p + i) * size);
}
}  // namespace

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
    const auto swap = inner == 8 ? swap_columns<8> : inner == 16 ? swap_columns<16> : swap_columns<0>;
    swap(x + begin * inner, p, q, inner, end - begin, y + begin * p * inner);
  });
}

COMERA_FOR_EACH_TYPE(Add, add)
COMERA_FOR_EACH_TYPE(Cast, cast)
COMERA_FOR_EACH_TYPE(Fill, fill)

COMERA_CPU_END
