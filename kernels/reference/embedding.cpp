#include "kernels/ops/elementwise/embedding.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void embedding_sum(const EmbeddingSum& op, const KernelContext&) {
  const std::int64_t width = op.y.dim(1);
  for (std::int64_t t = 0; t < op.y.dim(0); ++t) {
    const T* row = op.rows.data<T>() + op.index.data<std::int32_t>()[t] * width;
    const T* position =
        op.positions ? op.positions.data<T>() + op.position_ids.data<std::int32_t>()[t] * width : nullptr;
    const T* type = op.types.data<T>() + op.type_ids.data<std::int32_t>()[t] * width;
    T* y = op.y.data<T>() + t * width;
    for (std::int64_t j = 0; j < width; ++j)
      y[j] = row[j] + (position != nullptr ? position[j] : 0) + type[j];
  }
}

template <class T>
void segment_sum(const SegmentSum& op, const KernelContext&) {
  const std::int64_t width = op.dy.dim(1), segments = op.offsets.elements() - 1;
  const std::int32_t count = *op.count.data<std::int32_t>();
  const std::int32_t *order = op.order.data<std::int32_t>(), *offsets = op.offsets.data<std::int32_t>();
  for (std::int64_t u = 0; u < segments; ++u) {
    if (op.ids && u >= count) break;
    T* out = op.out.data<T>() + (op.ids ? op.ids.data<std::int32_t>()[u] : u) * width;
    if (!op.ids)
      for (std::int64_t j = 0; j < width; ++j) out[j] = 0;
    if (u >= count) continue;
    for (std::int32_t i = offsets[u]; i < offsets[u + 1]; ++i)
      for (std::int64_t j = 0; j < width; ++j) out[j] += op.dy.data<T>()[order[i] * width + j];
  }
}

template <class T>
void table_gradient(const TableGradient& op, const KernelContext&) {
  const std::int64_t width = op.dy.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t t = 0; t < count; ++t) {
    T* row = op.dtable.data<T>() + op.ids.data<std::int32_t>()[t] * width;
    for (std::int64_t j = 0; j < width; ++j) row[j] += op.dy.data<T>()[t * width + j];
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<EmbeddingSum>(dtype_of<T>, embedding_sum<T>);
  backend.set<SegmentSum>(dtype_of<T>, segment_sum<T>);
  backend.set<TableGradient>(dtype_of<T>, table_gradient<T>);
}

}  // namespace

void register_embedding(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
