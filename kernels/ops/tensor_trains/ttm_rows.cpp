#include "kernels/ops/tensor_trains/ttm_rows.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op, const Tensor& rows, const Tensor& frequent) {
  COMERA_CHECK(op.left.shape().dims() == 3 && op.right.shape().dims() == 3,
               "{}: the left and right factors must be (L, nl, rank) and (R, rank, nr), not {} and {}", name,
               op.left.shape().text(), op.right.shape().text());
  check_tensor(name, "left", op.left, op.left.shape(), op.compute());
  check_tensor(name, "right", op.right, {op.right.dim(0), op.left.dim(2), op.right.dim(2)}, op.compute());
  check_tensor(name, "rows", rows, {rows.dim(0), op.left.dim(1) * op.right.dim(2)}, op.compute());
  check_tensor(name, "ids", op.ids, {rows.dim(0)}, DType::int32);
  check_elements(name, "count", op.count, 1, DType::int32);
  if (!frequent) return;
  check_tensor(name, "frequent", frequent, {frequent.dim(0), rows.dim(1)}, op.compute());
  COMERA_CHECK(frequent.dim(0) <= op.left.dim(0) * op.right.dim(0), "{}: {} frequent rows of {}", name,
               frequent.dim(0), op.left.dim(0) * op.right.dim(0));
}

double row_product(const Tensor& left, const Tensor& right, std::int64_t rows) {
  return product(rows, left.dim(1) * left.dim(2), right.dim(2));
}

}  // namespace

void TTMRowsForward::check() const { check_common("TTMRowsForward", *this, rows, frequent); }

Work work_of(const TTMRowsForward& op) {
  return {row_product(op.left, op.right, op.rows.dim(0)), once(op.left, op.right, op.ids, op.rows)};
}

void TTMRowsBackward::check() const {
  check_common("TTMRowsBackward", *this, drows, dfrequent);
  check_tensor("TTMRowsBackward", "right_order", right_order, {drows.dim(0)}, DType::int32);
  check_tensor("TTMRowsBackward", "dleft", dleft, left.shape(), compute());
  check_tensor("TTMRowsBackward", "dright", dright, right.shape(), compute());
}

Work work_of(const TTMRowsBackward& op) {
  return {2 * row_product(op.left, op.right, op.drows.dim(0)),
          once(op.left, op.right, op.ids, op.right_order, op.drows) + twice(op.dleft, op.dright)};
}

}  // namespace comera
