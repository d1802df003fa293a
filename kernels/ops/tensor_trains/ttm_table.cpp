#include "kernels/ops/tensor_trains/ttm_table.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

void check_factors(const char* name, const Tensor& left, const Tensor& right, const Tensor& rows) {
  COMERA_CHECK(left.shape().dims() == 3 && right.shape().dims() == 3,
               "{}: the left and right factors must be (L, nl, rank) and (rank, R, nr), not {} and {}", name,
               left.shape().text(), right.shape().text());
  const DType master = master_of(rows.dtype());
  check_tensor(name, "left", left, left.shape(), master);
  check_tensor(name, "right", right, {left.dim(2), right.dim(1), right.dim(2)}, master);
  check_tensor(name, "rows", rows, {left.dim(0) * right.dim(1), left.dim(1) * right.dim(2)}, rows.dtype());
}

double contraction(const Tensor& left, const Tensor& right) {
  return product(left.dim(0) * left.dim(1), right.dim(1) * right.dim(2), left.dim(2));
}

}  // namespace

void TTMTableForward::check() const { check_factors("TTMTableForward", left, right, rows); }

Work work_of(const TTMTableForward& op) {
  Work work{contraction(op.left, op.right), once(op.left, op.right, op.rows)};
  work.wide_flops = work.flops;
  return work;
}

void TTMTableBackward::check() const {
  const char* name = "TTMTableBackward";
  check_factors(name, left, right, drows);
  check_tensor(name, "dleft", dleft, left.shape(), left.dtype());
  check_tensor(name, "dright", dright, right.shape(), left.dtype());
}

Work work_of(const TTMTableBackward& op) {
  return {2 * contraction(op.left, op.right), once(op.left, op.right, op.drows) + twice(op.dleft, op.dright)};
}

}  // namespace comera
