#include "kernels/ops/tensor_trains/ttm_chain.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op, const Tensor& rows) {
  COMERA_CHECK(op.cores >= 1 && op.cores <= max_ttm_cores, "{}: {} cores, expected 1 to {}", name, op.cores,
               max_ttm_cores);
  std::int64_t rank = 1, width = 1;
  for (int k = 0; k < op.cores; ++k) {
    const Tensor& core = op.core[k];
    COMERA_CHECK(core.shape().dims() == 4, "{}: core {} must be (r, m, n, r'), not {}", name, k,
                 core.shape().text());
    check_tensor(name, "core", core, {rank, core.dim(1), core.dim(2), core.dim(3)}, op.compute());
    rank = core.dim(3);
    width *= core.dim(2);
    if (k + 1 < op.cores) check_tensor(name, "gate", op.gate[k], {rank}, op.compute());
  }
  COMERA_CHECK(rank == 1, "{}: the last core must end with rank 1, not {}", name, rank);
  check_tensor(name, "rows", rows, {rows.dim(0), width}, op.compute());
  check_elements(name, "ids", op.ids, rows.dim(0), DType::int32);
  check_elements(name, "count", op.count, 1, DType::int32);
}

// Twice the multiply-adds of one row of a chain of cores.
template <class Operation>
double chain_flops(const Operation& op) {
  double flops = 0;
  std::int64_t width = 1;
  for (int k = 0; k < op.cores; ++k) {
    const Tensor& core = op.core[k];
    if (k > 0) flops += product(width, core.dim(2) * core.dim(3), core.dim(0));
    width *= core.dim(2);
  }
  return flops;
}

}  // namespace

void TTMChainForward::check() const { check_common("TTMChainForward", *this, rows); }

Work work_of(const TTMChainForward& op) {
  double cores = 0;
  for (int k = 0; k < op.cores; ++k) cores += once(op.core[k], op.gate[k]);
  return {chain_flops(op) * static_cast<double>(op.rows.dim(0)), cores + once(op.ids, op.rows)};
}

void TTMChainBackward::check() const {
  check_common("TTMChainBackward", *this, drows);
  for (int k = 0; k < cores; ++k) {
    check_tensor("TTMChainBackward", "dcore", dcore[k], core[k].shape(), compute());
    if (k + 1 < cores) check_tensor("TTMChainBackward", "dgate", dgate[k], gate[k].shape(), compute());
  }
}

Work work_of(const TTMChainBackward& op) {
  double cores = 0;
  for (int k = 0; k < op.cores; ++k) cores += once(op.core[k], op.gate[k]) + twice(op.dcore[k], op.dgate[k]);
  return {3 * chain_flops(op) * static_cast<double>(op.drows.dim(0)), cores + once(op.ids, op.drows)};
}

}  // namespace comera
