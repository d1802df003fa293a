#include "kernels/ops/elementwise/gather.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t rows_of_piece = 32;
}

template <class T>
void gather_rows(const GatherRows& op, const KernelContext&) {
  const std::int64_t rows = op.y.dim(0), width = op.x.dim(1), count = *op.count.data<std::int32_t>();
  parallel_pieces((rows + rows_of_piece - 1) / rows_of_piece, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(rows, (piece + 1) * rows_of_piece);
    for (std::int64_t i = piece * rows_of_piece; i < end; ++i) {
      T* y = op.y.data<T>() + i * width;
      if (i < count) {
        std::copy_n(op.x.data<T>() + op.indices.data<std::int32_t>()[i] * width, width, y);
      } else {
        std::fill_n(y, width, T(0.F));
      }
    }
  });
}

template <class T>
void scatter_rows(const ScatterRows& op, const KernelContext&) {
  const std::int64_t width = op.dx.dim(1);
  const std::int64_t count = std::min<std::int64_t>(*op.count.data<std::int32_t>(), op.dy.dim(0));
  for_flat_pieces(op.dx.elements(), [&](std::int64_t begin, std::int64_t length) {
    std::fill_n(op.dx.data<T>() + begin, length, T(0.F));
  });
  parallel_pieces((count + rows_of_piece - 1) / rows_of_piece, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(count, (piece + 1) * rows_of_piece);
    for (std::int64_t i = piece * rows_of_piece; i < end; ++i) {
      std::copy_n(op.dy.data<T>() + i * width, width,
                  op.dx.data<T>() + op.indices.data<std::int32_t>()[i] * width);
    }
  });
}

COMERA_FOR_EACH_TYPE(GatherRows, gather_rows)
COMERA_FOR_EACH_TYPE(ScatterRows, scatter_rows)

COMERA_CPU_END
