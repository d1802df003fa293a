#include "kernels/ops/tensor_trains/tt_inner.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op) {
  const std::int64_t rank_up = op.b_up.dim(0), inner = op.b_up.dim(1);
  check_activation(name, op.activation);
  check_tensor(name, "xa", op.xa, {op.xa.dim(0), rank_up}, op.compute());
  check_tensor(name, "b_up", op.b_up, {rank_up, inner}, op.compute());
  check_tensor(name, "bias", op.bias, {inner}, master_of(op.compute()));
  check_tensor(name, "a_down", op.a_down, {inner, op.a_down.dim(1)}, op.compute());
}

}  // namespace

void TTInnerForward::check() const {
  check_common("TTInnerForward", *this);
  check_tensor("TTInnerForward", "ha", ha, {xa.dim(0), a_down.dim(1)}, compute());
}

Work work_of(const TTInnerForward& op) {
  return {product(op.xa.dim(0), op.b_up.elements() + op.a_down.elements(), 1),
          once(op.xa, op.b_up, op.bias, op.a_down, op.ha),
          static_cast<double>(op.xa.dim(0) * op.b_up.dim(1))};
}

void TTInnerBackward::check() const {
  const char* name = "TTInnerBackward";
  check_common(name, *this);
  check_tensor(name, "dha", dha, {xa.dim(0), a_down.dim(1)}, compute());
  check_tensor(name, "db_up", db_up, b_up.shape(), master_of(compute()));
  check_tensor(name, "dbias", dbias, bias.shape(), master_of(compute()));
  check_tensor(name, "da_down", da_down, a_down.shape(), master_of(compute()));
  check_tensor(name, "dxa", dxa, xa.shape(), compute());
}

Work work_of(const TTInnerBackward& op) {
  return {product(op.xa.dim(0), 3 * op.b_up.elements() + 2 * op.a_down.elements(), 1),  // recomputed h
          once(op.xa, op.b_up, op.bias, op.a_down, op.dha, op.dxa) + twice(op.db_up, op.dbias, op.da_down),
          static_cast<double>(op.xa.dim(0) * op.b_up.dim(1))};
}

std::optional<std::string> why_no_gpu_kernel(DType compute, Activation activation, std::int64_t inner,
                                             std::int64_t rank_up, std::int64_t rank_down) {
  const std::int64_t rank = std::max(rank_up, rank_down);
  if (compute != DType::bfloat16)
    return fmt::format("the kernels compute in bfloat16, not in {}", name_of(compute));
  if (activation != Activation::gelu) return "the kernels have no activation but GELU";
  if (rank > most_inner_rank)
    return fmt::format("the kernels take ranks of up to {}, not {}", most_inner_rank, rank);
  if (rank_up % 8 != 0 || rank_down % 8 != 0 || inner % 8 != 0)
    return fmt::format("the kernels take multiples of 8, not ranks of {} and {} and {} inner columns",
                       rank_up, rank_down, inner);
  if (inner < 1 || inner > 1 << 24)
    return fmt::format("the kernels take up to {} inner columns, not {}", 1 << 24, inner);
  return {};
}

}  // namespace comera
