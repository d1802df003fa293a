#include "kernels/ops/products/weight_gradients.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

MatrixProduct WeightGradient::product() const {
  return {.a = x,
          .b = dy,
          .c = dw,
          .m = inputs,
          .n = outputs,
          .k = rows,
          .transpose_a = true,
          .accumulate = true,
          .lda = ldx,
          .ldb = lddy,
          .ldc = lddw};
}

void WeightGradients::check() const {
  const char* name = "WeightGradients";
  for (const WeightGradient& one : gradients) {
    COMERA_CHECK(one.x.dtype() == compute(), "{}: gradients of {} and of {}", name, name_of(compute()),
                 name_of(one.x.dtype()));
    one.product().check();
    COMERA_CHECK(one.dw.dtype() == master_of(compute()), "{}: dw must be {}, not {}", name,
                 name_of(master_of(compute())), name_of(one.dw.dtype()));
    if (one.dbias) {
      check_tensor(name, "dbias", one.dbias, {one.outputs}, master_of(compute()));
      check_tensor(name, "dy", one.dy, {one.rows, one.outputs}, compute());
    }
  }
  for (const PartialSums& one : sums) {
    const std::int64_t columns = one.to.elements();
    check_elements(name, "to", one.to, columns, master_of(compute()));
    COMERA_CHECK(columns >= 1 && one.parts.dtype() == one.to.dtype() && one.count >= 1 &&
                     one.apart >= columns && (one.count - 1) * one.apart + columns <= one.parts.elements(),
                 "{}: parts {} are too few for {} of {} numbers that are {} apart", name,
                 one.parts.shape().text(), one.count, columns, one.apart);
  }
}

void LaterSums::check(const char* operation, std::int64_t outputs, std::int64_t columns,
                      DType compute) const {
  if (sums != nullptr)
    check_elements(operation, "parts", parts, most_parts * outputs * columns, master_of(compute));
}

Work work_of(const WeightGradients& op) {
  Work all;
  for (const PartialSums& one : op.sums)
    all.bytes += bytes_of(one.count * one.to.elements(), one.to.dtype()) + twice(one.to);
  for (const WeightGradient& one : op.gradients) {
    all += work_of(one.product());
    all.bytes += twice(one.dbias);
  }
  return all;
}

}  // namespace comera
