#include "kernels/ops/elementwise/embedding.h"

#include <algorithm>

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void EmbeddingSum::check() const {
  const char* name = "EmbeddingSum";
  const std::int64_t tokens = y.dim(0), width = y.dim(1);
  check_tensor(name, "y", y, {tokens, width}, compute());
  check_tensor(name, "rows", rows, {rows.dim(0), width}, master_of(compute()));
  if (positions) check_tensor(name, "positions", positions, {positions.dim(0), width}, master_of(compute()));
  check_tensor(name, "types", types, {types.dim(0), width}, master_of(compute()));
  check_tensor(name, "index", index, {tokens}, DType::int32);
  check_tensor(name, "position_ids", position_ids, {tokens}, DType::int32);
  check_tensor(name, "type_ids", type_ids, {tokens}, DType::int32);
}

// A row of a table is read once, however many tokens use it; the rows read are no more than the tokens.
Work work_of(const EmbeddingSum& op) {
  const double asked_for = bytes_of(op.y.elements(), op.rows.dtype());
  double bytes = once(op.y, op.index, op.position_ids, op.type_ids);
  for (const Tensor& table : {op.rows, op.positions, op.types}) bytes += std::min(once(table), asked_for);
  return {0, bytes};
}

void SegmentSum::check() const {
  const char* name = "SegmentSum";
  const std::int64_t width = dy.dim(1), segments = offsets.elements() - 1;
  check_tensor(name, "dy", dy, {dy.dim(0), width}, compute());
  check_tensor(name, "order", order, {order.elements()}, DType::int32);
  check_elements(name, "offsets", offsets, segments + 1, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_optional(name, "ids", ids, {segments}, DType::int32);
  check_tensor(name, "out", out, {ids ? out.dim(0) : segments, width}, master_of(compute()));
}

Work work_of(const SegmentSum& op) {
  const double rows = op.ids ? 2 * bytes_of(op.ids.elements() * op.dy.dim(1), op.out.dtype()) : once(op.out);
  return {0, once(op.dy, op.order, op.offsets, op.ids) + rows};
}

void TableGradient::check() const {
  const char* name = "TableGradient";
  const std::int64_t tokens = dy.dim(0), width = dy.dim(1);
  check_tensor(name, "dy", dy, {tokens, width}, compute());
  check_tensor(name, "ids", ids, {tokens}, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_tensor(name, "dtable", dtable, {dtable.dim(0), width}, master_of(compute()));
}

Work work_of(const TableGradient& op) { return {0, once(op.dy, op.ids) + twice(op.dtable)}; }

}  // namespace comera
