#include "kernels/ops/lookups/replaced_tokens.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

void ReplaceTokens::check() const {
  const char* name = "ReplaceTokens";
  const std::int64_t tokens = token_ids.elements(), masked = positions.elements();
  check_elements(name, "token_ids", token_ids, tokens, DType::int32);
  check_elements(name, "positions", positions, masked, DType::int32);
  check_elements(name, "targets", targets, masked, DType::int32);
  check_elements(name, "drawn", drawn, masked, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  check_elements(name, "y", y, tokens, DType::int32);
  check_elements(name, "replaced", replaced, tokens, DType::float32);
}

Work work_of(const ReplaceTokens& op) { return {0, once(op.token_ids, op.positions, op.y, op.replaced)}; }

void OrderIds::check() const {
  const char* name = "OrderIds";
  const std::int64_t tokens = ids.elements(), distinct = unique_ids.elements();
  check_elements(name, "ids", ids, tokens, DType::int32);
  check_elements(name, "count", count, 1, DType::int32);
  COMERA_CHECK(right_rows >= 0, "{}: a table has {} right rows", name, right_rows);
  check_elements(name, "unique_ids", unique_ids, distinct, DType::int32);
  check_elements(name, "unique_count", unique_count, 1, DType::int32);
  check_elements(name, "unique_index", unique_index, tokens, DType::int32);
  check_elements(name, "unique_order", unique_order, tokens, DType::int32);
  check_elements(name, "unique_offsets", unique_offsets, distinct + 1, DType::int32);
  check_elements(name, "right_order", right_order, distinct, DType::int32);
}

Work work_of(const OrderIds& op) {
  return {0,
          once(op.ids, op.unique_ids, op.unique_index, op.unique_order, op.unique_offsets, op.right_order)};
}

}  // namespace comera
