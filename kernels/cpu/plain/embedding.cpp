#include "kernels/ops/embedding.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/gather.h"

namespace comera::plain {

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
void gather_rows(const GatherRows& op, const KernelContext&) {
  const std::int64_t width = op.x.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t i = 0; i < op.y.dim(0); ++i)
    for (std::int64_t j = 0; j < width; ++j)
      op.y.data<T>()[i * width + j] =
          i < count ? op.x.data<T>()[op.indices.data<std::int32_t>()[i] * width + j] : 0;
}

template <class T>
void scatter_rows(const ScatterRows& op, const KernelContext&) {
  const std::int64_t width = op.dx.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  T* dx = op.dx.data<T>();
  for (std::int64_t i = 0; i < op.dx.elements(); ++i) dx[i] = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, op.dy.dim(0)); ++i)
    for (std::int64_t j = 0; j < width; ++j)
      dx[op.indices.data<std::int32_t>()[i] * width + j] = op.dy.data<T>()[i * width + j];
}

}  // namespace

void register_embedding(Backend& backend) {
  backend.set<EmbeddingSum>(DType::float32, embedding_sum<float>);
  backend.set<EmbeddingSum>(DType::float64, embedding_sum<double>);
  backend.set<SegmentSum>(DType::float32, segment_sum<float>);
  backend.set<SegmentSum>(DType::float64, segment_sum<double>);
  backend.set<TableGradient>(DType::float32, table_gradient<float>);
  backend.set<TableGradient>(DType::float64, table_gradient<double>);
  backend.set<GatherRows>(DType::float32, gather_rows<float>);
  backend.set<GatherRows>(DType::float64, gather_rows<double>);
  backend.set<ScatterRows>(DType::float32, scatter_rows<float>);
  backend.set<ScatterRows>(DType::float64, scatter_rows<double>);
}

}  // namespace comera::plain
