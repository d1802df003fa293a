#include "kernels/ops/tensor_trains/scale_columns.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

template <class Operation>
void check_common(const char* name, const Operation& op, const Tensor& y) {
  const std::int64_t rows = op.x.dim(0), width = op.x.dim(1), ld = op.ldy ? op.ldy : width;
  check_tensor(name, "x", op.x, {rows, width}, op.compute());
  check_tensor(name, "gate", op.gate, {width}, op.compute());
  COMERA_CHECK(ld >= width && y.dtype() == op.compute() && y && (rows - 1) * ld + width <= y.elements(),
               "{}: y {} is too small for {} rows of {} that are {} apart", name, y.shape().text(), rows,
               width, ld);
}

}  // namespace

void ScaleColumnsForward::check() const { check_common("ScaleColumnsForward", *this, y); }

Work work_of(const ScaleColumnsForward& op) { return {0, twice(op.x) + once(op.gate)}; }

void ScaleColumnsBackward::check() const {
  check_common("ScaleColumnsBackward", *this, dy);
  check_elements("ScaleColumnsBackward", "dx", dx, x.elements(), compute());
  COMERA_CHECK(!accumulate_dx || dx.raw() != dy.raw(), "ScaleColumnsBackward: dy cannot be what is added to");
  check_tensor("ScaleColumnsBackward", "dgate", dgate, gate.shape(), compute());
}

Work work_of(const ScaleColumnsBackward& op) {
  return {0, once(op.x, op.gate, op.x /* dy */) + (op.accumulate_dx ? 2 : 1) * once(op.dx) + twice(op.dgate)};
}

}  // namespace comera
