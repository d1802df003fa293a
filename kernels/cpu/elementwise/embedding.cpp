#include "kernels/ops/elementwise/embedding.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t rows_of_piece = 32;
constexpr std::int64_t columns_of_piece = 128;

std::int64_t pieces_of(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

template <class T>
void add_row(const T* x, std::int64_t width, float* y) {
  for_columns(0, width, [&](std::int64_t c, auto at) { at.store(y + c, at.load(y + c) + at.load(x + c)); });
}
}  // namespace

template <class T>
void embedding_sum(const EmbeddingSum& op, const KernelContext&) {
  const std::int64_t tokens = op.y.dim(0), width = op.y.dim(1);
  parallel_pieces(pieces_of(tokens, rows_of_piece), thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(tokens, (piece + 1) * rows_of_piece);
    for (std::int64_t t = piece * rows_of_piece; t < end; ++t) {
      const float* row = op.rows.data<float>() + op.index.data<std::int32_t>()[t] * width;
      const float* type = op.types.data<float>() + op.type_ids.data<std::int32_t>()[t] * width;
      T* y = op.y.data<T>() + t * width;
      if (!op.positions) {
        for_columns(0, width,
                    [&](std::int64_t c, auto at) { at.store(y + c, at.load(row + c) + at.load(type + c)); });
        continue;
      }
      const float* position = op.positions.data<float>() + op.position_ids.data<std::int32_t>()[t] * width;
      for_columns(0, width, [&](std::int64_t c, auto at) {
        at.store(y + c, at.load(row + c) + at.load(position + c) + at.load(type + c));
      });
    }
  });
}

template <class T>
void segment_sum(const SegmentSum& op, const KernelContext&) {
  const std::int64_t width = op.dy.dim(1), count = *op.count.data<std::int32_t>();
  const std::int64_t segments = op.offsets.elements() - 1;
  const auto *order = op.order.data<std::int32_t>(), *offsets = op.offsets.data<std::int32_t>();
  const auto* ids = op.ids ? op.ids.data<std::int32_t>() : nullptr;
  parallel_pieces(pieces_of(segments, rows_of_piece), thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(segments, (piece + 1) * rows_of_piece);
    for (std::int64_t u = piece * rows_of_piece; u < end; ++u) {
      if (ids != nullptr && u >= count) return;
      float* out = op.out.data<float>() + (ids != nullptr ? ids[u] : u) * width;
      if (ids == nullptr) std::fill_n(out, width, 0.F);
      if (u >= count) continue;
      for (std::int32_t i = offsets[u]; i < offsets[u + 1]; ++i) {
        add_row(op.dy.data<T>() + order[i] * width, width, out);
      }
    }
  });
}

// Any token may add to any row, so the work is divided by columns.
template <class T>
void table_gradient(const TableGradient& op, const KernelContext&) {
  const std::int64_t width = op.dy.dim(1), count = *op.count.data<std::int32_t>();
  const auto* ids = op.ids.data<std::int32_t>();
  parallel_pieces(pieces_of(width, columns_of_piece), thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t begin = piece * columns_of_piece, columns = std::min(columns_of_piece, width - begin);
    for (std::int64_t t = 0; t < count; ++t) {
      add_row(op.dy.data<T>() + t * width + begin, columns, op.dtable.data<float>() + ids[t] * width + begin);
    }
  });
}

COMERA_FOR_EACH_TYPE(EmbeddingSum, embedding_sum)
COMERA_FOR_EACH_TYPE(SegmentSum, segment_sum)
COMERA_FOR_EACH_TYPE(TableGradient, table_gradient)

COMERA_CPU_END
